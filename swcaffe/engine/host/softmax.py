"""Softmax, its gradient, and the softmax loss: a few outer slices in each task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.functions import exp
from swcaffe.engine.host.native import carray, compiled, doubles, floats, regrouped
from swcaffe.engine.host.plans import IndexedPlan, Job, Scratch, Workspace, fields, split_evenly
from swcaffe.engine.host.team import Task, task
from swcaffe.engine.host.vectors import largest
from swcaffe.operators.base import Operator
from swcaffe.operators.softmax import (
    SoftmaxBackward,
    SoftmaxForward,
    SoftmaxLossBackward,
    SoftmaxLossForward,
)

__all__ = ["Softmax"]

LAYOUT = fields(
    "src dst diff_dst diff_src labels prob totals factor",
    "outer channels inner part parts ignores ignore_label wrong",
)
TASKS = 16
"""Tasks to aim at."""
TINY = np.float32(1.17549435e-38)


@regrouped
def _sum(values: Any) -> Any:
    total = np.float32(0)
    for c in range(len(values)):
        total += values[c]
    return total


@compiled
def _softmax_line(src: Any, dst: Any) -> None:
    """Classes in consecutive words; dst may be src."""
    top = largest(src.ctypes.data, len(src))
    for c in range(len(src)):
        dst[c] = exp(src[c] - top)
    total = _sum(dst)
    for c in range(len(src)):
        dst[c] /= total


@compiled
def _softmax(src: Any, dst: Any, channels: int, inner: int) -> None:
    """One outer slice; dst may be src."""
    if inner == 1:
        _softmax_line(src, dst)
        return
    for p in range(inner):
        top = src[p]
        for c in range(1, channels):
            top = max(top, src[c * inner + p])
        for c in range(channels):
            dst[c * inner + p] = exp(src[c * inner + p] - top)
        total = np.float32(0)
        for c in range(channels):
            total += dst[c * inner + p]
        for c in range(channels):
            dst[c * inner + p] /= total


@task(LAYOUT)
def forward(table: Any, index: int, worker: int) -> None:
    """Softmax of some slices."""
    t = carray(table, 1)[0]
    size = t.channels * t.inner
    for n in range(index * t.part, min((index + 1) * t.part, t.outer)):
        src, dst = floats(t.src + 4 * n * size, size), floats(t.dst + 4 * n * size, size)
        _softmax(src, dst, t.channels, t.inner)


@task(LAYOUT)
def backward(table: Any, index: int, worker: int) -> None:
    """dst * (diff_dst - sum of diff_dst * dst); diff_src may be diff_dst."""
    t = carray(table, 1)[0]
    size = t.channels * t.inner
    for n in range(index * t.part, min((index + 1) * t.part, t.outer)):
        at = 4 * n * size
        dst, diff = floats(t.dst + at, size), floats(t.diff_dst + at, size)
        out = floats(t.diff_src + at, size)
        for p in range(t.inner):
            total = np.float32(0)
            for c in range(t.channels):
                total += diff[c * t.inner + p] * dst[c * t.inner + p]
            for c in range(t.channels):
                i = c * t.inner + p
                out[i] = dst[i] * (diff[i] - total)


@task(LAYOUT)
def loss_forward(table: Any, index: int, worker: int) -> None:
    """Softmax of some slices, and their share of the totals."""
    t = carray(table, 1)[0]
    size = t.channels * t.inner
    total, count = 0.0, 0
    for n in range(index * t.part, min((index + 1) * t.part, t.outer)):
        src, prob = floats(t.src + 4 * n * size, size), floats(t.prob + 4 * n * size, size)
        labels = floats(t.labels + 4 * n * t.inner, t.inner)
        _softmax(src, prob, t.channels, t.inner)
        for p in range(t.inner):
            label = np.int64(labels[p])
            if t.ignores and label == t.ignore_label:
                continue
            if not 0 <= label < t.channels:
                t.wrong = n * t.inner + p + 1
                continue
            total -= math.log(np.float64(max(prob[label * t.inner + p], TINY)))
            count += 1
    share = doubles(t.shared + 16 * index, 2)
    share[0], share[1] = total, count


@task(LAYOUT)
def loss_totals(table: Any, index: int, worker: int) -> None:
    """Add the shares in order."""
    t = carray(table, 1)[0]
    totals, shares = doubles(t.totals, 2), doubles(t.shared, 2 * t.parts)
    totals[0] = totals[1] = 0.0
    for i in range(t.parts):
        totals[0] += shares[2 * i]
        totals[1] += shares[2 * i + 1]


@task(LAYOUT)
def loss_backward(table: Any, index: int, worker: int) -> None:
    """Factor * (prob - [channel is label])."""
    t = carray(table, 1)[0]
    size = t.channels * t.inner
    factor = floats(t.factor, 1)[0]
    for n in range(index * t.part, min((index + 1) * t.part, t.outer)):
        prob, out = floats(t.prob + 4 * n * size, size), floats(t.diff_src + 4 * n * size, size)
        labels = floats(t.labels + 4 * n * t.inner, t.inner)
        for i in range(size):
            out[i] = prob[i] * factor
        for p in range(t.inner):
            label = np.int64(labels[p])
            if t.ignores and label == t.ignore_label:
                for c in range(t.channels):
                    out[c * t.inner + p] = 0
            elif not 0 <= label < t.channels:
                t.wrong = n * t.inner + p + 1
            else:
                i = label * t.inner + p
                out[i] = (prob[i] - np.float32(1)) * factor


TASKS_OF: dict[type[Operator], tuple[Task, ...]] = {
    SoftmaxForward: (forward,),
    SoftmaxBackward: (backward,),
    SoftmaxLossForward: (loss_forward, loss_totals),
    SoftmaxLossBackward: (loss_backward,),
}


class Softmax:
    """Candidate for the softmax operators."""

    name = "slices"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """All four."""
        return None

    def plan(self, op: Operator) -> Plan:
        """A job of equal numbers of slices; for the loss, one that adds up."""
        assert isinstance(
            op, SoftmaxForward | SoftmaxBackward | SoftmaxLossForward | SoftmaxLossBackward
        ), op
        part = split_evenly(op.outer, TASKS)
        parts = -(-op.outer // part)
        values = {"outer": op.outer, "channels": op.channels, "inner": op.inner}
        values |= {"part": part, "parts": parts}
        label = getattr(op, "ignore_label", None)
        values |= {"ignores": int(label is not None), "ignore_label": label or 0}
        first, *rest = TASKS_OF[type(op)]
        jobs = [Job(first, parts), *(Job(task, 1) for task in rest)]
        scratch = Scratch(16 * parts, 0)
        what = ("labels", op.channels)
        return IndexedPlan(
            op, self.name, self.workspace, jobs, LAYOUT, values, what=what, scratch=scratch
        )
