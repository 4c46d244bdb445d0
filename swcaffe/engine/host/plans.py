"""Plans made of compiled tasks: jobs that share one table of named words, run by a team."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from swcaffe import kernels
from swcaffe.arrays import I64, Array, aligned_zeros
from swcaffe.engine.engine import Plan
from swcaffe.engine.host.team import Task, Team
from swcaffe.errors import DataError
from swcaffe.operators.base import Operator

__all__ = ["IndexedPlan", "Job", "Scratch", "TaskPlan", "Workspace", "fields", "split_evenly"]

SCRATCH = ("shared", "private", "private_bytes")


def fields(arrays: str, sizes: str = "", reals: str = "") -> np.dtype[Any]:
    """The layout of a table: addresses of arrays, scratch, integer sizes, float64 numbers."""
    words = (*arrays.split(), *SCRATCH, *sizes.split(), _stamp())
    return np.dtype([(n, np.int64) for n in words] + [(n, np.float64) for n in reals.split()])


@cache
def _stamp() -> str:
    """A word that names the state of all our sources.

    numba's cache looks at a task's own file only; the word makes the task's signature, and so its
    entry in the cache, a new one when a file of its helpers has changed.
    """
    files = (*sorted(Path(__file__).parent.glob("*.py")), Path(kernels.__file__))
    state = [(f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in files]
    return "stamp_" + hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def split_evenly(total: int, parts: int) -> int:
    """Size of each part but the last when `total` is cut into at most `parts`; at least 1."""
    return max(1, -(-total // max(1, parts)))


@dataclass(frozen=True, slots=True)
class Job:
    """`count` independent tasks."""

    task: Task
    count: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """Bytes a plan needs while it runs: shared by its tasks, and for each member alone."""

    shared_bytes: int = 0
    private_bytes: int = 0


class Workspace:
    """Memory that all plans of an engine use in turn; it grows when a plan needs more."""

    def __init__(self, team: Team) -> None:
        """Nothing yet."""
        self.team = team
        self._block: Array = aligned_zeros((0,), np.uint8)

    def reserve(self, shared_bytes: int, private_bytes: int) -> tuple[int, int]:
        """Addresses of the shared part and of the first member's part."""
        wanted = shared_bytes + self.team.size * private_bytes
        if wanted > self._block.nbytes:
            self._block = aligned_zeros((wanted,), np.uint8)
        start = self._block.ctypes.data
        return start, start + shared_bytes


class TaskPlan(Plan):
    """Runs jobs one after the other on a table that names the arrays of the call."""

    def __init__(
        self,
        op: Operator,
        route: str,
        workspace: Workspace,
        jobs: Sequence[Job],
        layout: np.dtype[Any],
        values: Mapping[str, float | Array],
        *,
        names: Sequence[str] = (),
        scratch: Scratch | None = None,
    ) -> None:
        """`values` fill words of the table, an array by its address; it lives as long as the plan.

        names  words for the operator's arrays in order; by default its operands' own names, with
               "new_" before an output that is called as an input
        """
        super().__init__(op, f"host: {route}")
        self.refusals: list[tuple[str, str]] = []
        self._workspace, self._team = workspace, workspace.team
        self._jobs = [(job.task, job.count) for job in jobs if job.count > 0]
        self._operands = [(o.count, np.dtype(o.dtype)) for o in op.inputs + op.outputs]
        words = tuple(layout.names or ())
        given = [o.name for o in op.inputs]
        outs = [f"new_{o.name}" if o.name in given else o.name for o in op.outputs]
        self._places = [words.index(name) for name in names or given + outs]
        self._shared_at = words.index("shared")
        sizes = scratch or Scratch()
        self._shared_bytes = -(-sizes.shared_bytes // 128) * 128
        self._private_bytes = -(-sizes.private_bytes // 128) * 128
        table = np.zeros(1, layout)
        table["private_bytes"] = self._private_bytes
        self._kept = []
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                self._kept.append(value)
                table[name] = value.ctypes.data
            else:
                table[name] = value
        self._words = table.view(np.int64)
        self._address = self._words.ctypes.data

    def explain(self) -> str:
        """The route, and why better candidates refused."""
        reasons = [f"  {name} refused: {reason}" for name, reason in self.refusals]
        return "\n".join([super().explain(), *reasons])

    def __call__(self, *arrays: Array) -> None:
        """Run the jobs; ShapeError for arrays that do not fit."""
        if len(arrays) != len(self._operands):
            self.op.check(*arrays)
        for (count, dtype), array in zip(self._operands, arrays, strict=True):
            if array.size != count or array.dtype != dtype or not array.flags.c_contiguous:
                self.op.check(*arrays)
        with self._team.lock:
            words = self._words
            for place, array in zip(self._places, arrays, strict=True):
                words[place] = array.ctypes.data
            at = self._shared_at
            words[at], words[at + 1] = self._workspace.reserve(
                self._shared_bytes, self._private_bytes
            )
            for task, count in self._jobs:
                self._team.run(task.address, self._address, count)
            self.finish(words)

    def finish(self, words: I64) -> None:
        """Look at the table's words after a run."""


class IndexedPlan(TaskPlan):
    """A plan whose tasks find their way by indices from the data.

    A task that meets an index outside the range computes nothing from it and says which it was, by
    number + 1, in the word `wrong`: no address is ever made from an index that was not compared.
    """

    def __init__(
        self,
        op: Operator,
        route: str,
        workspace: Workspace,
        jobs: Sequence[Job],
        layout: np.dtype[Any],
        values: Mapping[str, float | Array],
        *,
        what: tuple[str, int],
        scratch: Scratch | None = None,
    ) -> None:
        """`what` is the name of the indices' operand, and how many indices there are."""
        super().__init__(op, route, workspace, jobs, layout, values, scratch=scratch)
        self._what = what
        self._wrong_at = (layout.names or ()).index("wrong")

    def finish(self, words: I64) -> None:
        """Raise DataError if an index was out of range; the outputs are then of no use."""
        wrong = int(words[self._wrong_at])
        if wrong:
            words[self._wrong_at] = 0
            name, count = self._what
            raise DataError(
                f"{self.op}: value {wrong - 1} of {name} is not in 0 … {count - 1}",
                fix="correct the data, or make what is indexed larger",
            )
