"""Buckets and their exchange on ranks that run at the same time."""

from __future__ import annotations

import time

import numpy as np
import pytest

from swcaffe.errors import DesyncError, NumericsError, ParallelError
from swcaffe.parallel.allreduce import ALGORITHMS, allreduce
from swcaffe.parallel.bucket import Tensor, fill_buckets
from swcaffe.parallel.compressors import COMPRESSORS
from swcaffe.parallel.compressors.trimmed_topk import TrimmedTopK
from swcaffe.parallel.exchange import Exchange
from swcaffe.parallel.local import LocalCommunicator
from swcaffe.parallel.redeal import redeal
from swcaffe.parallel.residual import Residual
from swcaffe.parallel.threads import run_ranks

SHAPES = {"ip2.b": (10,), "ip2.w": (10, 50), "ip1.b": (50,), "ip1.w": (50, 40), "conv.w": (8, 25)}


def gradient(name, rank, iteration):
    rng = np.random.default_rng([len(name), sum(map(ord, name)), rank, iteration])
    return rng.standard_normal(SHAPES[name]).astype(np.float32)


def true_sum(name, size, iteration):
    return np.sum([gradient(name, r, iteration).astype(float) for r in range(size)], axis=0)


def make(comm, kind=None, density=0.05, limit=4096, **options):
    """An Exchange with weights compressed by `kind`."""
    tensors = [Tensor(n, s, dense=kind is None or n.endswith("b")) for n, s in SHAPES.items()]
    buckets = fill_buckets(tensors, limit)
    residuals = {}
    for tensor in tensors:
        if not tensor.dense:
            compressor = COMPRESSORS.get(kind)(density)
            residuals[tensor.name] = Residual(tensor.name, tensor.shape, compressor)
    return Exchange(comm, buckets, residuals, **options)


def step(exchange, rank, iteration):
    """One iteration; the sums by name."""
    for bucket in exchange.buckets:
        for slot in bucket.slots:
            bucket.view(slot.tensor.name)[...] = gradient(slot.tensor.name, rank, iteration)
        exchange.push(bucket)
    exchange.wait()
    return {
        slot.tensor.name: bucket.view(slot.tensor.name).copy()
        for bucket in exchange.buckets
        for slot in bucket.slots
    }


def run(size, iterations, *args, **options):
    """Per rank: (sums of each iteration, residuals, statistics)."""

    def work(comm):
        exchange = make(comm, *args, **options)
        sums = [step(exchange, comm.rank, i) for i in range(iterations)]
        exchange.close()
        return sums, exchange.residuals, exchange.statistics

    return run_ranks(size, work)


def test_buckets_hold_every_tensor_once_aligned_and_in_one_buffer():
    tensors = [Tensor(n, s, dense=n.endswith("b")) for n, s in SHAPES.items()]
    buckets = fill_buckets(tensors, 3000)
    places = [s.tensor.name for b in buckets for s in b.slots]
    assert sorted(places) == sorted(SHAPES)
    assert [b.last for b in buckets] == sorted(b.last for b in buckets)
    assert [[s.tensor.name for s in b.slots] for b in buckets] == [
        ["ip2.w"],
        ["ip2.b", "ip1.b"],
        ["ip1.w"],
        ["conv.w"],
    ]
    start = buckets[0].flat.ctypes.data
    for bucket in buckets:
        assert bucket.flat.ctypes.data == start
        start += bucket.flat.nbytes
        for slot in bucket.slots:
            view = bucket.view(slot.tensor.name)
            assert view.ctypes.data % 128 == 0
            assert np.shares_memory(view, bucket.flat)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "native"])
def test_dense_exchange_sums_every_tensor(size, algorithm):
    results = run(size, 2, algorithm=algorithm)
    for sums, _, statistics in results:
        for i, found in enumerate(sums):
            for name, value in found.items():
                want = true_sum(name, size, i)
                assert np.linalg.norm(value - want) <= 1e-6 * np.linalg.norm(want)
                assert value.tobytes() == results[0][0][i][name].tobytes()
        assert statistics.sent_bytes == statistics.dense_bytes


def test_compressor_none_is_bit_equal_to_the_plain_sum():

    def plain(comm):
        data = gradient("ip1.w", comm.rank, 0).reshape(-1)
        allreduce(comm, data)
        return data

    want = run_ranks(3, plain)[0]
    got = run(3, 1, "none", limit=1)[0][0][0]["ip1.w"]
    np.testing.assert_array_equal(got.reshape(-1), want)


@pytest.mark.parametrize("kind", ["topk", "threshold", "sampled", "randomk"])
def test_density_one_equals_the_dense_sum_and_leaves_nothing(kind):
    for sums, residuals, _ in run(3, 2, kind, 1.0):
        for i, found in enumerate(sums):
            for name, value in found.items():
                want = true_sum(name, 3, i)
                assert np.linalg.norm(value - want) <= 1e-6 * np.linalg.norm(want)
        assert not any(residual.left.any() for residual in residuals.values())


@pytest.mark.parametrize("kind", list(COMPRESSORS))
def test_all_sent_and_all_left_are_all_offered_on_all_ranks_with_the_same_bits(kind):
    size, iterations = 3, 20
    results = run(size, iterations, kind)
    again = run(size, iterations, kind)
    for name in ("ip2.w", "ip1.w", "conv.w"):
        sent = np.sum([s[name].astype(float) for s in results[0][0]], axis=0)
        left = np.sum([r[1][name].left.astype(float) for r in results], axis=0)
        offered = np.sum([true_sum(name, size, i) for i in range(iterations)], axis=0)
        error = sent + left.reshape(sent.shape) - offered
        rounding = 2e-3 if kind == "fp16" else 1e-5  # sums of fp16 round to 2^-11 themselves
        assert np.linalg.norm(error) <= rounding * np.linalg.norm(offered)
        assert np.linalg.norm(sent) > 0
        for other in [r[0] for r in results + again]:
            for i in range(iterations):
                assert other[i][name].tobytes() == results[0][0][i][name].tobytes()


def test_sent_bytes_are_those_of_the_messages():
    """4 ranks, 5 % of 500 + 2000 + 200 elements as index and value, and a header each."""
    dense_kept = 2 * 3 * (32 + 64) * 4 // 4  # two biases, each filled up to 128 bytes
    messages = sum(16 + 8 * k for k in (25, 100, 10))
    for _, _, statistics in run(4, 1, "topk", 0.05, 1 << 20):
        assert statistics.sent_bytes == 3 * messages + dense_kept


def test_where_messages_would_outweigh_a_dense_sum_that_is_what_is_sent():
    for sums, _, statistics in run(4, 1, "topk", 0.4):
        assert statistics.sent_bytes <= statistics.dense_bytes
        assert np.count_nonzero(sums[0]["ip1.w"]) < 4 * 800


def test_fp16_sends_half_of_what_dense_sends_on_any_number_of_ranks():
    for size in (2, 4):
        statistics = run(size, 1, "fp16", limit=1 << 20)[0][2]
        biases = 2 * (size - 1) * 96 * 4 // size
        weights = statistics.dense_bytes - biases
        assert statistics.sent_bytes - biases == pytest.approx(weights / 2, rel=0.05)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_fp16_sums_do_not_overflow_where_every_rank_has_the_same_large_gradient(size):
    def work(comm):
        buckets = fill_buckets([Tensor("w", (1, 3000), dense=False)])
        residual = Residual("w", (1, 3000), COMPRESSORS.get("fp16")())
        exchange = Exchange(comm, buckets, {"w": residual}, algorithm="native")
        buckets[0].view("w")[...] = np.linspace(1e5, 1e2, 3000)
        exchange.push(buckets[0])
        exchange.wait()
        np.testing.assert_allclose(
            buckets[0].view("w")[0], size * np.linspace(1e5, 1e2, 3000), rtol=size * 2**-11
        )

    run_ranks(size, work)


def test_it_says_when_compression_does_not_pay():
    statistics = run(2, 1, "topk", 0.05)[0][2]
    statistics.seconds.update(encode=1.0, communicate=0.1)
    statistics.dense_bytes, statistics.sent_bytes = 2000, 1000
    assert "compression does not pay: 1." in statistics.report()
    statistics.seconds.update(encode=0.01, decode=0.0)
    assert "does not pay" not in statistics.report()


@pytest.mark.parametrize("kind", [None, "topk", "powersgd"])
def test_nan_on_one_rank_is_named_on_all_in_the_same_iteration(kind):
    def work(comm):
        exchange = make(comm, kind)
        step(exchange, comm.rank, 0)
        for bucket in exchange.buckets:
            bucket.flat[:] = 1
            names = [slot.tensor.name for slot in bucket.slots]
            if comm.rank == 1 and "ip1.w" in names:
                bucket.view("ip1.w")[3, 4] = np.nan
            exchange.push(bucket)
        with pytest.raises(
            NumericsError, match=r"ip1\.w has NaN or infinity on rank 1 in iter"
        ) as e:
            exchange.wait()
        assert all(np.isfinite(r.left).all() for r in exchange.residuals.values())
        return str(e.value)

    assert len(set(run_ranks(3, work))) == 1


def test_a_residual_that_overflows_on_one_rank_is_told_to_all():
    def work(comm):
        exchange = make(comm, "topk", limit=1 << 20)
        if comm.rank == 1:
            exchange.residuals["ip1.w"].left[:] = np.finfo(np.float32).max
        with np.errstate(over="ignore"), pytest.raises(NumericsError, match=r"ip1\.w .* on rank 1"):
            for bucket in exchange.buckets:
                bucket.flat[:] = 1e38
                exchange.push(bucket)
            exchange.wait()

    run_ranks(3, work)


def test_ranks_that_exchange_different_buckets_or_iterations_are_told_apart():
    def work(comm):
        exchange = make(comm)
        exchange.iteration = comm.rank
        with pytest.raises(DesyncError, match=r"rank \d exchanges bucket 0 of iteration \d, rank"):
            step(exchange, comm.rank, 0)

    run_ranks(2, work)


def test_a_bucket_out_of_order_or_left_out_is_refused():
    def work(comm):
        exchange = make(comm, limit=1)
        with pytest.raises(DesyncError, match=r"rank \d pushed bucket 1 .* where 0 is due"):
            exchange.push(exchange.buckets[1])
        with pytest.raises(DesyncError, match=r"rank \d waits after 0 of 5 buckets"):
            exchange.wait()

    run_ranks(2, work)


class Corrupt(TrimmedTopK):
    """Writes an index outside the tensor, on one rank only."""

    def encode(self, flat, state):
        message = super().encode(flat, state)
        if self.seed == 1:
            message[16:20] = 255
        return message

    def decode(self, message, out, factor=1.0):
        if factor > 0:
            super().decode(message, out, factor)

    def sent(self, message, count):
        return None


def test_a_malformed_message_is_refused_with_the_rank_that_sent_it():
    def work(comm):
        buckets = fill_buckets([Tensor("w", (20, 10), dense=False)])
        residual = Residual("w", (20, 10), Corrupt(0.1, seed=comm.rank))
        exchange = Exchange(comm, buckets, {"w": residual})
        buckets[0].flat[:] = np.arange(buckets[0].flat.size)
        exchange.push(buckets[0])
        with pytest.raises(ParallelError, match="message of rank 1 for w: malformed gradient"):
            exchange.wait()

    run_ranks(2, work)


def test_pushing_returns_at_once_and_the_rest_of_backward_hides_the_exchange():
    def work(comm):
        exchange = make(comm, limit=1)
        if comm.rank == 0:
            time.sleep(0.2)
        start = time.monotonic()
        exchange.push(exchange.buckets[0])
        pushed = time.monotonic() - start
        if comm.rank == 1:
            time.sleep(0.3)
        for bucket in exchange.buckets[1:]:
            exchange.push(bucket)
        exchange.wait()
        return pushed, exchange.statistics.seconds["communicate"]

    early = run_ranks(2, work)[1]
    assert early[0] < 0.1
    assert early[1] > 0.15


@pytest.mark.parametrize("kind", list(COMPRESSORS))
def test_a_resumed_exchange_continues_with_the_same_bits(kind):
    def work(comm):
        whole = make(comm, kind)
        for i in range(3):
            step(whole, comm.rank, i)
        resumed = make(comm, kind)
        resumed.load_state(whole.state())
        for i in range(3, 6):
            one, other = step(whole, comm.rank, i), step(resumed, comm.rank, i)
            for name, value in one.items():
                assert value.tobytes() == other[name].tobytes()

    run_ranks(2, work)


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_another_number_of_ranks_keeps_the_mean_of_what_is_left(size):
    def work(comm):
        exchange = make(comm, "topk")
        step(exchange, comm.rank, 0)
        return exchange.state()

    old = run_ranks(4, work)
    new = redeal(old, size)
    assert len(new) == size
    for name in ("ip1.w", "conv.w"):
        before = np.mean([s[f"{name}/left"].astype(float) for s in old], axis=0)
        after = np.mean([s[f"{name}/left"].astype(float) for s in new], axis=0)
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    make(LocalCommunicator(), "topk").load_state(new[0])


def test_a_dense_warm_up_keeps_momentum_and_then_compresses():
    def work(comm):
        exchange = make(comm, "topk", 0.01)
        exchange.use_density(1.0)
        dense = step(exchange, comm.rank, 0)["ip1.w"]
        exchange.use_density(0.1)
        sparse = step(exchange, comm.rank, 1)["ip1.w"]
        return dense, np.count_nonzero(sparse)

    dense, kept = run_ranks(2, work)[0]
    np.testing.assert_allclose(dense, true_sum("ip1.w", 2, 0), rtol=1e-5, atol=1e-5)
    assert 200 <= kept <= 400
