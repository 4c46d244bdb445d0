"""Messages and collectives between ranks that really run at the same time."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from swcaffe.errors import ParallelError, PeerTimeoutError
from swcaffe.parallel.local import LocalCommunicator
from swcaffe.parallel.threads import run_ranks

SIZES = [1, 2, 3, 5, 8]


def mine(comm, count=4):
    return np.arange(count, dtype=np.float32) + 10 * comm.rank


@pytest.mark.parametrize("size", SIZES)
def test_allgather_is_in_rank_order_everywhere(size):
    for got in run_ranks(size, lambda comm: comm.allgather(mine(comm).reshape(2, 2))):
        assert got.shape == (size, 2, 2)
        np.testing.assert_array_equal(got[:, 0, 0], 10 * np.arange(size))


@pytest.mark.parametrize("size", SIZES)
def test_allgatherv_takes_unequal_and_empty_parts(size):
    def work(comm):
        return comm.allgatherv(mine(comm, comm.rank), list(range(comm.size)))

    for parts in run_ranks(size, work):
        assert [p.size for p in parts] == list(range(size))
        assert all(p[0] == 10 * r for r, p in enumerate(parts) if r)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("root", [0, "last"])
def test_bcast_reaches_every_rank_from_any_root(size, root):
    root = size - 1 if root == "last" else root

    def work(comm):
        array = mine(comm)
        comm.bcast(array, root)
        return array

    for got in run_ranks(size, work):
        np.testing.assert_array_equal(got, np.arange(4) + 10 * root)


def test_barrier_lets_nobody_pass_before_the_last():
    def work(comm):
        if comm.rank == 1:
            time.sleep(0.1)
        arrived = time.monotonic()
        comm.barrier()
        return arrived, time.monotonic()

    times = run_ranks(3, work)
    assert min(left for _, left in times) >= max(came for came, _ in times)


def test_duplicates_do_not_take_each_others_messages():
    def work(comm):
        other = comm.duplicate()
        got = np.zeros(1, np.float32), np.zeros(1, np.float32)
        if comm.rank == 0:
            other.send(np.array([2], np.float32), 1)
            comm.send(np.array([1], np.float32), 1)
        else:
            comm.recv(got[0], 0)
            other.recv(got[1], 0)
        return float(got[0][0]), float(got[1][0])

    assert run_ranks(2, work)[1] == (1.0, 2.0)


def test_a_silent_peer_is_named_with_the_tensor_it_is_waited_for():
    def work(comm):
        if comm.rank == 0:
            comm.recv(np.zeros(1, np.float32), 1, what="gradient of ip1")

    with pytest.raises(PeerTimeoutError, match=r"rank 0 waited 0\.05 s for rank 1 in gradient"):
        run_ranks(2, work, timeout_s=0.05)


def test_a_rank_that_raises_ends_all_others_with_its_own_error():
    def work(comm):
        if comm.rank == 2:
            raise ValueError("bad record")
        with pytest.raises(ParallelError, match="rank 2 failed: bad record"):
            comm.barrier()

    with pytest.raises(ValueError, match="bad record"):
        run_ranks(4, work)


@pytest.mark.parametrize("other", [np.zeros(3, np.float32), np.zeros(4, np.float64)])
def test_a_message_of_another_size_or_type_is_refused_by_name(other):
    def work(comm):
        if comm.rank == 0:
            comm.send(other, 1)
        else:
            comm.recv(np.zeros(4, np.float32), 0)

    with pytest.raises(ParallelError, match=r"rank 1 from rank 0: 4 x float32 expected"):
        run_ranks(2, work)


def test_alone_every_collective_is_the_identity():
    comm = LocalCommunicator()
    array = mine(comm)
    comm.barrier()
    comm.bcast(array)
    comm.native_allreduce(array)
    np.testing.assert_array_equal(array, mine(comm))
    np.testing.assert_array_equal(comm.allgather(array), [array])


def test_the_package_loads_no_mpi_until_a_communicator_is_made():
    code = "import sys, swcaffe.parallel.mpi; sys.exit('mpi4py' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_mpi_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "from swcaffe.parallel.mpi import MpiCommunicator\n"
        "MpiCommunicator()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert "pip install 'swcaffe[mpi]'" in result.stderr
