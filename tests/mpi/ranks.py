"""What each rank does when tests start this file under mpiexec: `ranks.py NAME`."""

from __future__ import annotations

import sys

import numpy as np

from swcaffe.errors import PeerTimeoutError
from swcaffe.parallel.allreduce import ALGORITHMS, allreduce
from swcaffe.parallel.bucket import Tensor, fill_buckets
from swcaffe.parallel.compressors import COMPRESSORS
from swcaffe.parallel.exchange import Exchange
from swcaffe.parallel.mpi import MpiCommunicator
from swcaffe.parallel.residual import Residual


def collectives(comm):
    """Each collective against arithmetic on ranks."""
    got = comm.allgather(np.array([comm.rank], np.int64))
    np.testing.assert_array_equal(got[:, 0], np.arange(comm.size))
    parts = comm.allgatherv(np.full(comm.rank, comm.rank, np.uint8), list(range(comm.size)))
    assert [p.tolist() for p in parts] == [[r] * r for r in range(comm.size)]
    last = np.array([comm.rank], np.float32)
    comm.bcast(last, comm.size - 1)
    assert last[0] == comm.size - 1
    comm.barrier()


def sums(comm):
    """Every algorithm: the library's own sum to 1e-6, and the same bits on all ranks."""
    other = comm.duplicate()
    for count in (0, 1, 1000, 100_003):
        parts = [np.random.default_rng(r).standard_normal(count) for r in range(comm.size)]
        want = np.sum(parts, axis=0)
        for name in (*ALGORITHMS, "native"):
            data = parts[comm.rank].astype(np.float32)
            allreduce(other, data, name)
            assert np.linalg.norm(data - want) <= 1e-6 * max(1.0, float(np.linalg.norm(want)))
            everywhere = comm.allgather(data.view(np.uint8))
            assert (everywhere == everywhere[0]).all(), name


def exchange(comm):
    """Every compressor, exchanged by a thread while this one waits: one sum, nothing lost."""
    for kind in COMPRESSORS:
        tensors = [Tensor("w", (60, 50), dense=False), Tensor("b", (60,))]
        residual = Residual("w", (60, 50), COMPRESSORS.get(kind)(0.02))
        buckets = fill_buckets(tensors)
        both = Exchange(comm, buckets, {"w": residual})
        sent, offered = np.zeros(3000), np.zeros(3000)
        for iteration in range(5):
            for bucket in buckets:
                rng = np.random.default_rng([iteration, comm.rank])
                bucket.flat[bucket.slots[0].place] = rng.standard_normal(
                    bucket.slots[0].tensor.count
                )
                if not bucket.dense:
                    offered += bucket.flat[:3000]
                both.push(bucket)
            both.wait()
            for bucket in buckets:
                everywhere = comm.allgather(bucket.flat.view(np.uint8))
                assert (everywhere == everywhere[0]).all(), kind
                if not bucket.dense:
                    sent += bucket.flat[:3000]
        both.close()
        left = residual.left.astype(float)
        for array in (left, offered):
            comm.native_allreduce(array)
        rounding = 2e-3 if kind == "fp16" else 1e-5  # sums of fp16 round to 2^-11 themselves
        assert np.linalg.norm(sent + left - offered) <= rounding * np.linalg.norm(offered), kind


def silence(comm):
    """Rank 1 never sends: rank 0 says so, then ends all with the code of a silent peer."""
    comm.timeout_s = 0.3
    try:
        if comm.rank == 0:
            comm.recv(np.zeros(1, np.float32), 1, what="ip1")
        comm.timeout_s = 30
        comm.barrier()
    except PeerTimeoutError as error:
        print(error, flush=True)
        comm.abort(error.exit_code)


if __name__ == "__main__":
    world = MpiCommunicator(60)
    {"collectives": collectives, "sums": sums, "exchange": exchange, "silence": silence}[
        sys.argv[1]
    ](world)
    if world.rank == 0:
        print("done on", world.size, flush=True)
