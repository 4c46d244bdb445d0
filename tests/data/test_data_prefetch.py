from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time

import pytest

from swcaffe.data.prefetch import Prefetcher
from swcaffe.errors import DataError


def number(n: int, _spent: int | None) -> int:
    return n


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_batches_come_in_order_whatever_the_threads(threads):
    def slow_evens(n: int, _spent: int | None) -> int:
        time.sleep(0.002 * (n % 2 == 0))
        return n

    readers = Prefetcher(slow_evens, depth=4, threads=threads, start=3)
    assert [readers.next() for _ in range(30)] == list(range(3, 33))
    assert readers.position == 33
    readers.close()


def test_readers_stop_at_depth_batches_ahead():
    made = []

    def make(n: int, _spent: int | None) -> int:
        made.append(n)
        return n

    readers = Prefetcher(make, depth=3, threads=2)
    readers.next()
    time.sleep(0.05)
    assert sorted(made) == [0, 1, 2, 3]
    readers.close()


def test_nothing_is_read_before_the_first_batch_is_wanted():
    made = []
    readers = Prefetcher(lambda n, _spent: made.append(n), depth=2)
    time.sleep(0.02)
    assert not made
    assert not [t for t in threading.enumerate() if t.name.startswith("reader")]
    readers.close()


def test_an_error_is_raised_in_its_turn_and_again():
    def make(n: int, _spent: int | None) -> int:
        if n == 2:
            raise DataError("record 00000007 is broken")
        return n

    readers = Prefetcher(make, depth=4, threads=2)
    assert [readers.next(), readers.next()] == [0, 1]
    for _ in range(2):
        with pytest.raises(DataError, match="00000007"):
            readers.next()
    assert readers.position == 2
    readers.close()


def test_spent_batches_are_handed_out_again():
    given = []

    def make(n: int, spent: list[int] | None) -> list[int]:
        given.append(spent)
        return [n]

    readers = Prefetcher(make, depth=1)
    first = readers.next()
    readers.next()
    readers.recycle(first)
    for _ in range(3):
        readers.next()
    readers.close()
    assert any(spent is first for spent in given)


def test_waiting_is_counted():
    readers = Prefetcher(lambda n, _spent: time.sleep(0.03), depth=1)
    readers.next()
    assert 0.02 < readers.wait_s < 1.0
    readers.close()


def test_closing_ends_the_threads_and_next_goes_on_where_it_stopped():
    readers = Prefetcher(number, depth=2, threads=3)
    assert [readers.next(), readers.next()] == [0, 1]
    readers.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("reader")]
    assert readers.next() == 2
    readers.close()
    readers.close()


def test_a_forgotten_prefetcher_ends_its_threads():
    readers = Prefetcher(number, depth=2)
    readers.next()
    del readers
    gc.collect()
    assert not [t for t in threading.enumerate() if t.name.startswith("reader")]


@pytest.mark.parametrize("body", ["time.sleep(3600)", "pass"])
def test_the_interpreter_ends_with_readers_running(body):
    program = (
        "import time\n"
        "from swcaffe.data.prefetch import Prefetcher\n"
        f"def make(n, spent):\n    if n: {body}\n    return n\n"
        "readers = Prefetcher(make, depth=2, threads=2)\n"
        "readers.next()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], timeout=20, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_reads_on_with_threads_of_its_own():
    program = (
        "import os\n"
        "from swcaffe.data.prefetch import Prefetcher\n"
        "readers = Prefetcher(lambda n, spent: n, depth=2, threads=2)\n"
        "assert readers.next() == 0\n"
        "child = os.fork()\n"
        "assert [readers.next(), readers.next()] == [1, 2]\n"
        "readers.close()\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        timeout=20,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
