"""Joining and cutting rows: each task copies an equal range of one piece, run by run."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats, words
from swcaffe.engine.host.plans import Job, TaskPlan, Workspace, fields
from swcaffe.engine.host.team import task
from swcaffe.operators.base import Operator
from swcaffe.operators.layout import Concat, Slice

__all__ = ["Copies"]

PIECES = 16
"""Pieces that the table has room for, its first words."""
LAYOUT = fields(
    " ".join(f"piece{i}" for i in range(PIECES)) + " whole widths starts tasks",
    "outer width number",
)
PART = 16384
"""Elements of a task."""


@compiled
def _copy(table: Any, index: int, join: bool) -> None:
    """Copy range `index` to or from the whole."""
    record = carray(table, 1)
    t = record[0]
    tasks = words(t.tasks, t.number + 1)
    piece = 0
    while index >= tasks[piece + 1]:
        piece += 1
    base = words(record.ctypes.data, PIECES)[piece]
    width, start = words(t.widths, t.number)[piece], words(t.starts, t.number)[piece]
    at = (index - tasks[piece]) * PART
    end = min(at + PART, t.outer * width)
    while at < end:
        row, column = at // width, at % width
        count = min(width - column, end - at)
        part = floats(base + 4 * at, count)
        whole = floats(t.whole + 4 * (row * t.width + start + column), count)
        if join:
            whole[:] = part
        else:
            part[:] = whole
        at += count


@task(LAYOUT)
def join(table: Any, index: int, worker: int) -> None:
    """From a piece to the whole."""
    _copy(table, index, True)


@task(LAYOUT)
def cut(table: Any, index: int, worker: int) -> None:
    """From the whole to a piece."""
    _copy(table, index, False)


class Copies:
    """Candidate for Concat and Slice."""

    name = "copied runs"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Up to PIECES pieces."""
        assert isinstance(op, Concat | Slice), op
        number = len(op.widths if isinstance(op, Concat) else op.wanted)
        if number > PIECES:
            return Refusal(f"{number} pieces, more than {PIECES}")
        return None

    def plan(self, op: Operator) -> Plan:
        """One job."""
        assert isinstance(op, Concat | Slice), op
        joins = isinstance(op, Concat)
        chosen = range(len(op.widths)) if isinstance(op, Concat) else op.wanted
        starts = list(accumulate(op.widths, initial=0))
        counts = [-(-op.outer * op.widths[i] // PART) for i in chosen]
        values: dict[str, Any] = {"outer": op.outer, "width": starts[-1], "number": len(counts)}
        values["widths"] = np.array([op.widths[i] for i in chosen], np.int64)
        values["starts"] = np.array([starts[i] for i in chosen], np.int64)
        values["tasks"] = np.array(list(accumulate(counts, initial=0)), np.int64)
        pieces = [f"piece{i}" for i in range(len(counts))]
        names = [*pieces, "whole"] if joins else ["whole", *pieces]
        jobs = [Job(join if joins else cut, sum(counts))]
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, names=names)
