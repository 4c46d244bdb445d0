"""Ranks as threads of one process: real concurrency without MPI, for tests and for trying things.

Messages are copied when sent, as an eager MPI would, and matched by (source, target, tag, group) in
order. A rank that raises ends all others at their next wait, with its number in their errors.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from swcaffe.arrays import Array
from swcaffe.errors import ParallelError
from swcaffe.parallel.communicator import Communicator, Request

__all__ = ["ThreadCommunicator", "ThreadWorld", "run_ranks"]

Result = TypeVar("Result")
Key = tuple[int, int, int, int]


@dataclass
class _Mailbox:
    arrived: deque[Array] = field(default_factory=deque)
    wanted: deque[_Receive] = field(default_factory=deque)


class ThreadWorld:
    """What the ranks share: mailboxes, and the first failure."""

    def __init__(self, size: int) -> None:
        """For `size` ranks."""
        self.size = size
        self.changed = threading.Condition()
        self.failure: str | None = None
        self._boxes: dict[Key, _Mailbox] = defaultdict(_Mailbox)

    def post(self, key: Key, array: Array) -> None:
        """Deliver a copy of `array` to the first receive that wants it, now or later."""
        with self.changed:
            box = self._boxes[key]
            if box.wanted:
                box.wanted.popleft().deliver(array)
                self.changed.notify_all()
            else:
                box.arrived.append(array.copy())

    def want(self, key: Key, receive: _Receive) -> None:
        """Give `receive` the first message that came, or the next to come."""
        with self.changed:
            box = self._boxes[key]
            if box.arrived:
                receive.deliver(box.arrived.popleft())
            else:
                box.wanted.append(receive)

    def fail(self, text: str) -> None:
        """End all waits; the first failure is the one that is told."""
        with self.changed:
            self.failure = self.failure or text
            self.changed.notify_all()


class _Sent(Request):
    """A message that was copied: done at once."""

    def test(self) -> bool:
        return True


class _Receive(Request):
    """A receive into `array`, completed by the sender's thread."""

    def __init__(self, world: ThreadWorld, array: Array, who: str) -> None:
        self._world = world
        self._array = array
        self._who = who
        self._done = False
        self._wrong = ""

    def deliver(self, message: Array) -> None:
        """Copy the message in, or keep what does not fit."""
        fits = message.size == self._array.size and message.dtype == self._array.dtype
        if fits:
            self._array[...] = message.reshape(self._array.shape)
        else:
            self._wrong = (
                f"{self._who}: {self._array.size} x {self._array.dtype} expected, "
                f"{message.size} x {message.dtype} came"
            )
        self._done = True

    def test(self) -> bool:
        if self._wrong:
            raise ParallelError(self._wrong, fix="both ranks must name the same array")
        if not self._done and self._world.failure:
            raise ParallelError(self._world.failure, fix="mend that rank; this one is well")
        return self._done

    def wait(self, timeout_s: float) -> bool:
        with self._world.changed:
            return self._world.changed.wait_for(self.test, timeout_s)


class ThreadCommunicator(Communicator):
    """One thread's end of a `ThreadWorld`."""

    def __init__(
        self, world: ThreadWorld, rank: int, timeout_s: float = 60.0, group: int = 0
    ) -> None:
        """Rank `rank`; messages of different groups never meet."""
        super().__init__(rank, world.size, timeout_s)
        self._world = world
        self._group = group
        self._duplicates = 0

    def isend(self, array: Array, to: int, tag: int = 0) -> Request:
        """Copy now, deliver when wanted."""
        self._world.post((self.rank, to, tag, self._group), array)
        return _Sent()

    def irecv(self, array: Array, source: int, tag: int = 0) -> Request:
        """Filled by the sender's thread."""
        receive = _Receive(self._world, array, f"rank {self.rank} from rank {source}")
        self._world.want((source, self.rank, tag, self._group), receive)
        return receive

    def duplicate(self) -> ThreadCommunicator:
        """A group of its own; its number follows from how often this one was duplicated."""
        self._duplicates += 1
        group = self._group * 1000 + self._duplicates
        return ThreadCommunicator(self._world, self.rank, self.timeout_s, group)

    def abort(self, code: int) -> None:
        """End all waits of all ranks."""
        self._world.fail(f"rank {self.rank} aborted the run with code {code}")


def run_ranks(
    size: int, work: Callable[[Communicator], Result], timeout_s: float = 60.0
) -> list[Result]:
    """Run `work` on `size` ranks at once; their results in rank order.

    Raises what the first failing rank raised; the others end at their next wait.
    """
    world = ThreadWorld(size)
    results: dict[int, Result] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadCommunicator(world, rank, timeout_s))
        except BaseException as error:  # handed to the caller's thread below
            errors.append(error)
            world.fail(f"rank {rank} failed: {error}")

    threads = [threading.Thread(target=run, args=(r,), daemon=True) for r in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(size)]
