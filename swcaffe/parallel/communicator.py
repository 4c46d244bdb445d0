"""What ranks can say to each other: arrays from one to another, and collectives made of them.

Only raw arrays travel, never pickled objects, so a peer can send nothing but numbers. Every wait
has a limit and says, when it passes, which rank waited, for whom and for what.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import Array
from swcaffe.errors import ParallelError, PeerTimeoutError

__all__ = ["Communicator", "Request"]

_EAGER_POLLS = 50
_LONGEST_SLEEP_S = 1e-3


class Request(ABC):
    """A message under way; its array belongs to the communicator until `wait` is true."""

    @abstractmethod
    def test(self) -> bool:
        """Whether it has arrived; raises ParallelError if it never can."""

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for it; whether it has arrived.

        Polls with growing sleeps: a rank waiting in an MPI library would use a whole core.
        """
        limit = time.monotonic() + timeout_s
        polls = 0
        while not self.test():
            if time.monotonic() > limit:
                return False
            polls += 1
            time.sleep(min(_LONGEST_SLEEP_S, 1e-5 * max(0, polls - _EAGER_POLLS)))
        return True


class Communicator(ABC):
    """One rank's end of a group of `size` ranks. One thread at a time may use it.

    Messages from one rank to another with one tag arrive in the order they were sent. Collectives
    must be called by all ranks in the same order; contiguous arrays only.
    """

    def __init__(self, rank: int, size: int, timeout_s: float = 300.0) -> None:
        """Rank `rank` of 0 … size - 1; no wait lasts longer than `timeout_s`."""
        assert 0 <= rank < size, f"rank {rank} of {size}"
        self.rank = rank
        self.size = size
        self.timeout_s = timeout_s

    @abstractmethod
    def isend(self, array: Array, to: int, tag: int = 0) -> Request:
        """Start sending `array`, which must not change before the request is done."""

    @abstractmethod
    def irecv(self, array: Array, source: int, tag: int = 0) -> Request:
        """Start receiving into `array`, whose size and type must be the sender's."""

    @abstractmethod
    def duplicate(self) -> Communicator:
        """The same ranks with separate messages, for another thread; a collective call."""

    @abstractmethod
    def abort(self, code: int) -> None:
        """End all ranks at once with exit code `code`."""

    def wait(self, requests: Sequence[tuple[Request, int]], what: str) -> None:
        """Wait for (request, peer) pairs; `what` names the tensor or step in a time-out's text."""
        for request, peer in requests:
            if not request.wait(self.timeout_s):
                raise self.late(f"rank {peer}", what)

    def late(self, whom: str, what: str) -> PeerTimeoutError:
        """The error of a wait for `whom` that took too long."""
        return PeerTimeoutError(
            f"rank {self.rank} waited {self.timeout_s:g} s for {whom} in {what}",
            fix="see that rank's log; a slow but healthy rank needs a longer limit",
        )

    def send(self, array: Array, to: int, tag: int = 0, what: str = "send") -> None:
        """Send and wait."""
        self.wait([(self.isend(array, to, tag), to)], what)

    def recv(self, array: Array, source: int, tag: int = 0, what: str = "receive") -> None:
        """Receive and wait."""
        self.wait([(self.irecv(array, source, tag), source)], what)

    def barrier(self) -> None:
        """Return when all ranks have called it."""
        self.allgather(np.zeros(1, np.uint8), "barrier")

    def bcast(self, array: Array, root: int = 0, what: str = "broadcast") -> None:
        """Give every rank the `array` of `root`, along a binomial tree."""
        place = (self.rank - root) % self.size
        reach = 1
        while reach < self.size:
            if place < reach and place + reach < self.size:
                self.send(array, (self.rank + reach) % self.size, what=what)
            elif reach <= place < 2 * reach:
                self.recv(array, (self.rank - reach) % self.size, what=what)
            reach *= 2

    def allgather(self, array: Array, what: str = "allgather") -> Array:
        """(size, *array.shape): the arrays of all ranks, in rank order."""
        parts = self.allgatherv(array.reshape(-1), [array.size] * self.size, what)
        return np.concatenate(parts).reshape(self.size, *array.shape)

    def allgatherv(
        self, array: Array, counts: Sequence[int], what: str = "allgather"
    ) -> list[Array]:
        """Flat arrays of all ranks, `counts[r]` elements from rank r; passed around a ring."""
        if array.size != counts[self.rank]:
            raise ParallelError(
                f"rank {self.rank} offers {array.size} elements, announced {counts[self.rank]}",
                fix="announce the length that is sent",
            )
        parts = [np.empty(count, array.dtype) for count in counts]
        parts[self.rank][:] = array
        right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for step in range(self.size - 1):
            mine, theirs = (self.rank - step) % self.size, (self.rank - step - 1) % self.size
            self.wait(
                [
                    (self.irecv(parts[theirs], left), left),
                    (self.isend(parts[mine], right), right),
                ],
                what,
            )
        return parts

    def native_allreduce(self, array: Array, what: str = "allreduce") -> None:
        """Sum `array` over all ranks in place, by the library's own method; here in rank order."""
        parts = self.allgatherv(array.reshape(-1), [array.size] * self.size, what)
        total = parts[0]
        for part in parts[1:]:
            total += part
        array[...] = total.reshape(array.shape)
