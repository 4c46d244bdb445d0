"""Table look-up: rows copied forward; backward a task owns some columns and adds all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, floats
from swcaffe.engine.host.plans import IndexedPlan, Job, Workspace, fields, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.kernels import WIDTH
from swcaffe.operators.base import Operator
from swcaffe.operators.embed import EmbedBackward, EmbedForward

__all__ = ["Embedding"]

LAYOUT = fields(
    "index weights bias dst diff_dst diff_weights", "count rows width part has_bias wrong"
)
TASKS = 16
"""Tasks to aim at."""


@task(LAYOUT)
def look_up(table: Any, index: int, worker: int) -> None:
    """Rows of some indices."""
    t = carray(table, 1)[0]
    chosen = floats(t.index, t.count)
    bias = floats(t.bias, t.width * t.has_bias)
    for i in range(index * t.part, min((index + 1) * t.part, t.count)):
        row = np.int64(chosen[i])
        if not 0 <= row < t.rows:
            t.wrong = i + 1
            continue
        source, out = (
            floats(t.weights + 4 * row * t.width, t.width),
            floats(t.dst + 4 * i * t.width, t.width),
        )
        if t.has_bias:
            for x in range(t.width):
                out[x] = source[x] + bias[x]
        else:
            out[:] = source


@task(LAYOUT)
def add_rows(table: Any, index: int, worker: int) -> None:
    """Some columns of all rows, in the order of the indices."""
    t = carray(table, 1)[0]
    chosen, first = floats(t.index, t.count), index * t.part
    count = min(t.part, t.width - first)
    for i in range(t.count):
        row = np.int64(chosen[i])
        if not 0 <= row < t.rows:
            t.wrong = i + 1
            continue
        source = floats(t.diff_dst + 4 * (i * t.width + first), count)
        out = floats(t.diff_weights + 4 * (row * t.width + first), count)
        for x in range(count):
            out[x] += source[x]


class Embedding:
    """Candidate for look-up and its gradient."""

    name = "rows"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Every table."""
        return None

    def plan(self, op: Operator) -> Plan:
        """One job, of equal numbers of indices or of columns."""
        assert isinstance(op, EmbedForward | EmbedBackward), op
        values = {"count": op.count, "rows": op.rows, "width": op.width}
        if isinstance(op, EmbedForward):
            part = split_evenly(op.count, TASKS)
            values["has_bias"] = int(op.has_bias)
            job = Job(look_up, -(-op.count // part))
        else:
            part = split_evenly(-(-op.width // WIDTH), TASKS) * WIDTH
            job = Job(add_rows, -(-op.width // part))
        values["part"] = part
        what = ("index", op.rows)
        return IndexedPlan(op, self.name, self.workspace, [job], LAYOUT, values, what=what)
