"""A team of threads that share the tasks of one job: the caller works, the others help.

A job is a compiled function, a table of words, and a number of tasks. Each member takes the next
task by an atomic increment, so a member that is late or descheduled costs nothing but its help.
What a task computes depends on its number only, never on the member or on how many there are:
results are the same bits for every number of threads.

Helpers wait for the next job by spinning for a short while, outside the interpreter lock, and then
on a lock. The protocol on the shared words, all accesses sequentially consistent:

    caller   task, table, count, next = ...; job = number; work; job = 0; wait until active = 0
    helper   active += 1; if job not in (0, the last one): work; active -= 1

A helper that arrives late either sees job = 0, or the caller sees it active and waits for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from swcaffe.arrays import I64, aligned_zeros
from swcaffe.engine.host.native import (
    atomic_add,
    atomic_load,
    atomic_store,
    call_task,
    compiled,
    entry,
    pause,
    task_address,
)

__all__ = ["Task", "Team", "task"]

_JOB, _ACTIVE, _NEXT, _TASK, _TABLE, _COUNT, _ASLEEP = (16 * i for i in range(7))
"""Places of the shared words, 128 bytes apart; helper h sleeps at _ASLEEP + 16 h."""

_SPINS = 4000
"""Turns of the waiting loop before a helper sleeps, some 50 to 100 µs."""


class Task:
    """A compiled task, loaded from numba's cache or compiled at its first use."""

    def __init__(self, function: Callable[..., None], layout: np.dtype[Any]) -> None:
        """`function(table, index, worker)` does task number `index` with `worker`'s scratch."""
        self.function, self.layout = function, layout

    @cached_property
    def address(self) -> int:
        """Where the machine code is."""
        return task_address(self.function, self.layout)


def task(layout: np.dtype[Any]) -> Callable[[Callable[..., None]], Task]:
    """Decorator that makes a function of (table, index, worker) a task.

    The table is a pointer to one record of `layout`.
    """

    def make(function: Callable[..., None]) -> Task:
        return Task(function, layout)

    return make


@compiled
def _work(words: int, worker: int) -> None:
    """Do tasks until none is left."""
    code, table = atomic_load(words, _TASK), atomic_load(words, _TABLE)
    count = atomic_load(words, _COUNT)
    index = atomic_add(words, _NEXT, 1)
    while index < count:
        call_task(code, table, index, worker)
        index = atomic_add(words, _NEXT, 1)


@entry("void(int64, int64, int64, int64, int64)")
def _lead(words: int, number: int, code: int, table: int, count: int) -> None:
    """Run one job as the caller."""
    atomic_store(words, _TASK, code)
    atomic_store(words, _TABLE, table)
    atomic_store(words, _COUNT, count)
    atomic_store(words, _NEXT, 0)
    atomic_store(words, _JOB, number)
    _work(words, 0)
    atomic_store(words, _JOB, 0)
    while atomic_load(words, _ACTIVE) != 0:
        pause()


@entry("int64(int64, int64, int64, int64)")
def _help(words: int, worker: int, last: int, spins: int) -> int:
    """Help with jobs until none comes for a while; the last job's number."""
    turns = 0
    while turns < spins:
        job = atomic_load(words, _JOB)
        if job in (0, last):
            pause()
            turns += 1
            continue
        atomic_add(words, _ACTIVE, 1)
        job = atomic_load(words, _JOB)
        if job not in (0, last):
            _work(words, worker)
            last = job
        atomic_add(words, _ACTIVE, -1)
        turns = 0
    return last


class Team:
    """`size` threads, the calling one included; helpers start with the first job.

    Whoever runs jobs holds `lock`, over all jobs that belong together.
    """

    def __init__(self, size: int) -> None:
        """No thread yet."""
        self.size = size
        self.lock = threading.Lock()
        self._process = 0

    def run(self, code: int, table: int, count: int) -> None:
        """Do tasks 0 to count - 1 of the code and table at these addresses."""
        if self._process != os.getpid():
            self._start()
        self._number += 1
        if count > 1:
            self._wake()
        _lead(self._address, self._number, code, table, count)

    def _start(self) -> None:
        """Start helpers: at first use, and again in a forked child, which has none."""
        self._process = os.getpid()
        self._number = 0
        self._words: I64 = aligned_zeros((_ASLEEP + 16 * self.size,), np.int64)
        self._address = self._words.ctypes.data
        self._beds = [threading.Lock() for _ in range(self.size)]
        for worker in range(1, self.size):
            arguments = (self._words, self._beds[worker], worker)
            threading.Thread(target=_member, args=arguments, daemon=True).start()

    def _wake(self) -> None:
        """Wake sleeping helpers: they look for a job after saying that they sleep."""
        for worker in range(1, self.size):
            if self._words[_ASLEEP + 16 * worker]:
                self._words[_ASLEEP + 16 * worker] = 0
                self._beds[worker].release()


def _member(words: I64, bed: Any, worker: int) -> None:
    """A helper's life."""
    address, last = words.ctypes.data, 0
    bed.acquire()
    while True:
        last = _help(address, worker, last, _SPINS)
        words[_ASLEEP + 16 * worker] = 1
        bed.acquire()
