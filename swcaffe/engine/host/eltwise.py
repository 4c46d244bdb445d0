"""Elementwise sums, products, maxima and dropout: one pass over equal ranges of the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats, ints
from swcaffe.engine.host.plans import Job, TaskPlan, Workspace, fields
from swcaffe.engine.host.team import Task, task
from swcaffe.operators.base import Operator
from swcaffe.operators.eltwise import (
    Dropout,
    EltwiseMax,
    EltwiseMaxBackward,
    EltwiseProduct,
    EltwiseSum,
)

__all__ = ["Elementwise"]

SOURCES = 4
"""Sources that the table has room for."""
LAYOUT = fields("src0 src1 src2 src3 dst index", "count part arity which", "c0 c1 c2 c3 ratio")
PART = 16384
"""Elements of a task."""


@compiled
def _range(t: Any, index: int, base: int) -> Any:
    """The elements of task `index` in the array at an address."""
    skip = index * t.part
    return floats(base + 4 * skip, min(t.part, t.count - skip))


@task(LAYOUT)
def weighted_sum(table: Any, index: int, worker: int) -> None:
    """dst = sum of c[i] * src[i]; dst may be src0."""
    t = carray(table, 1)[0]
    dst, first = _range(t, index, t.dst), _range(t, index, t.src0)
    c0, c1 = np.float32(t.c0), np.float32(t.c1)
    if t.arity == 1:
        for x in range(len(dst)):
            dst[x] = c0 * first[x]
        return
    second = _range(t, index, t.src1)
    for x in range(len(dst)):
        dst[x] = c0 * first[x] + c1 * second[x]
    for source, factor in ((t.src2, t.c2), (t.src3, t.c3)):
        if source:
            more, c = _range(t, index, source), np.float32(factor)
            for x in range(len(dst)):
                dst[x] += c * more[x]


@task(LAYOUT)
def product(table: Any, index: int, worker: int) -> None:
    """dst = product of the sources; dst may be src0."""
    t = carray(table, 1)[0]
    dst, first = _range(t, index, t.dst), _range(t, index, t.src0)
    if t.arity == 1:
        for x in range(len(dst)):
            dst[x] = first[x]
        return
    second = _range(t, index, t.src1)
    for x in range(len(dst)):
        dst[x] = first[x] * second[x]
    for source in (t.src2, t.src3):
        if source:
            more = _range(t, index, source)
            for x in range(len(dst)):
                dst[x] *= more[x]


@compiled
def _places(t: Any, index: int) -> Any:
    """The winners' numbers of task `index`."""
    skip = index * t.part
    return ints(t.index + 4 * skip, min(t.part, t.count - skip))


@task(LAYOUT)
def maximum(table: Any, index: int, worker: int) -> None:
    """dst = largest source, and its number; of the first two the second wins a tie."""
    t = carray(table, 1)[0]
    dst, place = _range(t, index, t.dst), _places(t, index)
    first, second = _range(t, index, t.src0), _range(t, index, t.src1)
    for x in range(len(dst)):
        a, b = first[x], second[x]
        dst[x] = a if a > b else b
        place[x] = np.int32(0) if a > b else np.int32(1)
    for source, number in ((t.src2, 2), (t.src3, 3)):
        if source:
            more = _range(t, index, source)
            for x in range(len(dst)):
                larger = more[x] > dst[x]
                dst[x] = more[x] if larger else dst[x]
                place[x] = np.int32(number) if larger else place[x]


@task(LAYOUT)
def maximum_backward(table: Any, index: int, worker: int) -> None:
    """dst = src0 where source number `which` had won, else 0."""
    t = carray(table, 1)[0]
    dst, place, diff = _range(t, index, t.dst), _places(t, index), _range(t, index, t.src0)
    which = np.int32(t.which)
    for x in range(len(dst)):
        dst[x] = diff[x] if place[x] == which else np.float32(0)


@task(LAYOUT)
def dropout(table: Any, index: int, worker: int) -> None:
    """dst = src / (1 - ratio) where noise >= ratio, else 0; noise is src1."""
    t = carray(table, 1)[0]
    dst, src, noise = (
        _range(t, index, t.dst),
        _range(t, index, t.src0),
        _range(t, index, t.src1),
    )
    ratio, factor = np.float32(t.ratio), np.float32(1 / (1 - t.ratio))
    for x in range(len(dst)):
        dst[x] = src[x] * (factor if noise[x] >= ratio else np.float32(0))


TASK_OF: dict[type[Operator], Task] = {
    EltwiseSum: weighted_sum,
    EltwiseProduct: product,
    EltwiseMax: maximum,
    EltwiseMaxBackward: maximum_backward,
    Dropout: dropout,
}


class Elementwise:
    """Candidate for sums, products, maxima and dropout."""

    name = "vector loops"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Up to SOURCES sources."""
        if len(op.inputs) > SOURCES:
            return Refusal(f"{len(op.inputs)} sources, more than {SOURCES}")
        return None

    def plan(self, op: Operator) -> Plan:
        """One job of equal ranges."""
        assert isinstance(op, tuple(TASK_OF)), op
        count, arity = op.outputs[0].count, len(op.inputs)
        values: dict[str, float] = {"count": count, "part": PART, "arity": arity}
        names = [f"src{i}" for i in range(arity)] + ["dst"]
        if isinstance(op, EltwiseSum):
            values |= {f"c{i}": c for i, c in enumerate(op.coefficients)}
        elif isinstance(op, EltwiseMax):
            names.append("index")
        elif isinstance(op, EltwiseMaxBackward):
            names = ["index", "src0", "dst"]
            values["which"] = op.which
        elif isinstance(op, Dropout):
            values["ratio"] = op.ratio
        jobs = [Job(TASK_OF[type(op)], -(-count // PART))]
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, names=names)
