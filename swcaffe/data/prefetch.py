"""Reader threads, a bounded number of batches ahead, delivered in order.

`make(number, spent)` makes batch `number` and must be pure in `number`; which thread makes it, and
when, cannot be seen from outside. Threads start with the first `next`, so a net that is only built
or forked has none. They are daemons that know the shared state but not the prefetcher, so neither a
forgotten prefetcher nor a hung reader keeps a process alive.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Prefetcher"]

B = TypeVar("B")

JOIN_S = 1.0
"""How long `close` waits for readers inside `make` before leaving them to end with the process."""


class _Shared(Generic[B]):
    """What consumer and readers both touch, always under `changed`."""

    def __init__(self, first: int, depth: int) -> None:
        self.changed = threading.Condition()
        self.pid = os.getpid()
        self.depth = depth
        self.wanted = first  # the batch the consumer takes next
        self.claimed = first  # the batch the next free reader makes
        self.ready: dict[int, B | BaseException] = {}
        self.spent: list[B] = []
        self.stopped = False

    def claim(self) -> tuple[int, B | None] | None:
        """The next batch number to make and an old batch to overwrite; None to end the thread."""
        with self.changed:
            while not self.stopped and self.claimed >= self.wanted + self.depth:
                self.changed.wait()
            if self.stopped:
                return None
            number = self.claimed
            self.claimed += 1
            return number, self.spent.pop() if self.spent else None

    def deliver(self, number: int, result: B | BaseException) -> None:
        with self.changed:
            self.ready[number] = result
            self.changed.notify_all()

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()


def _read(shared: _Shared[B], make: Callable[[int, B | None], B]) -> None:
    while (job := shared.claim()) is not None:
        try:
            result: B | BaseException = make(*job)
        except BaseException as error:  # not swallowed: raised by the consumer, in its turn
            result = error
        shared.deliver(job[0], result)
        del job, result  # keep no batch alive while waiting


def _shut(shared: _Shared[B], readers: list[threading.Thread]) -> None:
    if shared.pid != os.getpid():  # a forked child has the lists but not the threads
        return
    shared.stop()
    end = time.monotonic() + JOIN_S
    for reader in readers:
        if reader is not threading.current_thread():
            reader.join(max(0.0, end - time.monotonic()))


class Prefetcher(Generic[B]):
    """Batches `start`, `start` + 1, … made by `threads` readers, at most `depth` ahead."""

    def __init__(
        self,
        make: Callable[[int, B | None], B],
        *,
        depth: int = 4,
        threads: int = 1,
        start: int = 0,
    ) -> None:
        """`make(number, spent)` may overwrite `spent`, a batch given back by `recycle`, or None."""
        assert depth >= 1 and threads >= 1 and start >= 0, (depth, threads, start)
        self._make, self._depth, self._threads = make, depth, threads
        self.position = start
        """Number of the batch `next` returns; save it, and start from it to resume."""
        self.wait_s = 0.0
        """Seconds the consumer has waited for data."""
        self._shared: _Shared[B] | None = None
        self._finalizer: weakref.finalize[..., Prefetcher[B]] | None = None

    def next(self) -> B:
        """The next batch, waiting for it if need be.

        Raises what `make` raised for this batch, and again on every further call.
        """
        shared = self._running()
        with shared.changed:
            if self.position not in shared.ready:
                begin = time.perf_counter()
                while self.position not in shared.ready:
                    shared.changed.wait()
                self.wait_s += time.perf_counter() - begin
            result = shared.ready[self.position]
            if isinstance(result, BaseException):
                raise result
            del shared.ready[self.position]
            self.position += 1
            shared.wanted = self.position
            shared.changed.notify_all()
        return result

    def recycle(self, batch: B) -> None:
        """Give back a batch that nobody reads any more; a later one may take its memory."""
        if self._shared is not None:
            with self._shared.changed:
                self._shared.spent.append(batch)

    def close(self) -> None:
        """Stop the readers. A later `next` starts again at `position`."""
        if self._finalizer is not None:
            self._finalizer()
        self._shared = self._finalizer = None

    def _running(self) -> _Shared[B]:
        if self._shared is None or self._shared.pid != os.getpid():
            shared: _Shared[B] = _Shared(self.position, self._depth)
            readers = [
                threading.Thread(
                    target=_read, args=(shared, self._make), name=f"reader-{i}", daemon=True
                )
                for i in range(self._threads)
            ]
            self._shared = shared
            self._finalizer = weakref.finalize(self, _shut, shared, readers)
            for reader in readers:
                reader.start()
        return self._shared
