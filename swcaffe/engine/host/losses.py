"""Losses of pairs of arrays, and the counting behind accuracy: shares of tasks, added in order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.functions import exp, tanh
from swcaffe.engine.host.native import carray, doubles, floats, regrouped
from swcaffe.engine.host.plans import (
    IndexedPlan,
    Job,
    Scratch,
    TaskPlan,
    Workspace,
    fields,
    split_evenly,
)
from swcaffe.engine.host.team import Task, task
from swcaffe.operators.base import Operator
from swcaffe.operators.loss import (
    AccuracyCount,
    EuclideanLossForward,
    SigmoidLossBackward,
    SigmoidLossForward,
)

__all__ = ["Accuracy", "PairLosses"]

PAIRS = fields(
    "a b difference total src target totals factor diff_src",
    "count part parts ignores ignore_label",
)
SCORES = fields(
    "src labels found seen",
    "outer channels inner part parts top_k ignores ignore_label wrong",
)
PART = 8192
"""Elements of a task."""
TASKS = 16
"""Tasks to aim at, for accuracy."""
HALF = np.float32(0.5)


@regrouped
def _squares(values: Any) -> Any:
    total = 0.0
    for x in range(len(values)):
        total += np.float64(values[x]) * np.float64(values[x])
    return total


@regrouped
def _total(values: Any) -> Any:
    total = 0.0
    for x in range(len(values)):
        total += values[x]
    return total


@task(PAIRS)
def euclidean(table: Any, index: int, worker: int) -> None:
    """A range of a - b, and its share of the squares."""
    t = carray(table, 1)[0]
    skip = index * t.part
    count = min(t.part, t.count - skip)
    a, b = floats(t.a + 4 * skip, count), floats(t.b + 4 * skip, count)
    difference = floats(t.difference + 4 * skip, count)
    for x in range(count):
        difference[x] = a[x] - b[x]
    doubles(t.shared, t.parts)[index] = _squares(difference)


@task(PAIRS)
def euclidean_total(table: Any, index: int, worker: int) -> None:
    """Add the shares."""
    t = carray(table, 1)[0]
    doubles(t.total, 1)[0] = _total(doubles(t.shared, t.parts))


@task(PAIRS)
def sigmoid_loss(table: Any, index: int, worker: int) -> None:
    """A range's share of the loss and of the elements counted."""
    t = carray(table, 1)[0]
    skip = index * t.part
    count = min(t.part, t.count - skip)
    src, target = floats(t.src + 4 * skip, count), floats(t.target + 4 * skip, count)
    losses = doubles(t.private + worker * t.private_bytes, count)
    counted = 0
    for x in range(count):
        score, wanted = src[x], target[x]
        kept = not (t.ignores and np.float32(math.trunc(wanted)) == np.float32(t.ignore_label))
        high = score if score > 0 else score * 0  # NaN stays
        loss = high - score * wanted + math.log1p(exp(-abs(score)))
        losses[x] = np.float64(loss) if kept else 0.0
        counted += kept
    doubles(t.shared, t.parts)[index] = _total(losses)
    doubles(t.shared + 8 * t.parts, t.parts)[index] = counted


@task(PAIRS)
def sigmoid_totals(table: Any, index: int, worker: int) -> None:
    """Add the shares."""
    t = carray(table, 1)[0]
    totals = doubles(t.totals, 2)
    totals[0] = _total(doubles(t.shared, t.parts))
    totals[1] = _total(doubles(t.shared + 8 * t.parts, t.parts))


@task(PAIRS)
def sigmoid_backward(table: Any, index: int, worker: int) -> None:
    """A range of factor * (sigmoid(src) - target)."""
    t = carray(table, 1)[0]
    skip = index * t.part
    count = min(t.part, t.count - skip)
    src, target = floats(t.src + 4 * skip, count), floats(t.target + 4 * skip, count)
    out, factor = floats(t.diff_src + 4 * skip, count), floats(t.factor, 1)[0]
    for x in range(count):
        out[x] = factor * (HALF * tanh(HALF * src[x]) + HALF - target[x])
    if t.ignores:
        for x in range(count):
            if np.float32(math.trunc(target[x])) == np.float32(t.ignore_label):
                out[x] = 0


@task(SCORES)
def count_found(table: Any, index: int, worker: int) -> None:
    """Histograms of some outer slices: found, then seen."""
    t = carray(table, 1)[0]
    size = t.channels * t.inner
    counts = doubles(t.shared + 16 * index * t.channels, 2 * t.channels)
    counts[:] = 0
    for n in range(index * t.part, min((index + 1) * t.part, t.outer)):
        src, labels = (
            floats(t.src + 4 * n * size, size),
            floats(t.labels + 4 * n * t.inner, t.inner),
        )
        for p in range(t.inner):
            label = np.int64(labels[p])
            if t.ignores and label == t.ignore_label:
                continue
            if not 0 <= label < t.channels:
                t.wrong = n * t.inner + p + 1
                continue
            own, rivals = src[label * t.inner + p], -1
            for c in range(t.channels):
                rivals += src[c * t.inner + p] >= own
            counts[label] += rivals < t.top_k
            counts[t.channels + label] += 1


@task(SCORES)
def add_counts(table: Any, index: int, worker: int) -> None:
    """Add the histograms."""
    t = carray(table, 1)[0]
    found, seen = doubles(t.found, t.channels), doubles(t.seen, t.channels)
    found[:] = 0
    seen[:] = 0
    for i in range(t.parts):
        counts = doubles(t.shared + 16 * i * t.channels, 2 * t.channels)
        for c in range(t.channels):
            found[c] += counts[c]
            seen[c] += counts[t.channels + c]


TASKS_OF: dict[type[Operator], tuple[Task, ...]] = {
    EuclideanLossForward: (euclidean, euclidean_total),
    SigmoidLossForward: (sigmoid_loss, sigmoid_totals),
    SigmoidLossBackward: (sigmoid_backward,),
}


def _ignored(label: int | None) -> dict[str, int]:
    return {"ignores": int(label is not None), "ignore_label": label or 0}


class PairLosses:
    """Candidate for the losses of pairs."""

    name = "vector loops"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """All three."""
        return None

    def plan(self, op: Operator) -> Plan:
        """A job of equal ranges, and one that adds up."""
        assert isinstance(op, EuclideanLossForward | SigmoidLossForward | SigmoidLossBackward), op
        parts = -(-op.count // PART)
        values = {"count": op.count, "part": PART, "parts": parts}
        values |= _ignored(getattr(op, "ignore_label", None))
        first, *rest = TASKS_OF[type(op)]
        jobs = [Job(first, parts), *(Job(task, 1) for task in rest)]
        scratch = Scratch(16 * parts, 8 * PART)
        return TaskPlan(op, self.name, self.workspace, jobs, PAIRS, values, scratch=scratch)


class Accuracy:
    """Candidate for the counting behind accuracy."""

    name = "slices"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Every count."""
        return None

    def plan(self, op: Operator) -> Plan:
        """A job of equal numbers of slices, and one that adds up."""
        assert isinstance(op, AccuracyCount), op
        part = split_evenly(op.outer, TASKS)
        parts = -(-op.outer // part)
        values = {"outer": op.outer, "channels": op.channels, "inner": op.inner, "part": part}
        values |= {"parts": parts, "top_k": op.top_k, **_ignored(op.ignore_label)}
        jobs = [Job(count_found, parts), Job(add_counts, 1)]
        scratch, what = Scratch(16 * parts * op.channels, 0), ("labels", op.channels)
        return IndexedPlan(
            op, self.name, self.workspace, jobs, SCORES, values, what=what, scratch=scratch
        )
