"""Batch normalisation, scale and shift, learned slopes: everything that goes channel by channel.

Arrays are (outer, channels, inner). A task owns some channels, so sums need no second pass; they
are made in double precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats, regrouped
from swcaffe.engine.host.plans import Job, TaskPlan, Workspace, fields, split_evenly
from swcaffe.engine.host.team import Task, task
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.base import Operator
from swcaffe.operators.batch_norm import BatchNormBackward, BatchNormForward
from swcaffe.operators.prelu import PReluBackwardData, PReluBackwardWeights, PReluForward

__all__ = ["ChannelWise"]

LAYOUT = fields(
    "src dst mean variance diff_dst diff_src scale bias diff_scale diff_bias slope diff_slope",
    "outer channels inner part of_batch accumulate",
    "eps",
)
TASKS = 16
"""Tasks to aim at."""


@compiled
def _line(t: Any, base: int, n: int, c: int) -> Any:
    """The inner elements of a channel of an outer slice."""
    return floats(base + 4 * (n * t.channels + c) * t.inner, t.inner)


@regrouped
def _sum(values: Any) -> Any:
    total = 0.0
    for x in range(len(values)):
        total += np.float64(values[x])
    return total


@regrouped
def _squares(values: Any, mean: Any) -> Any:
    total = 0.0
    for x in range(len(values)):
        apart = values[x] - mean
        total += np.float64(apart * apart)
    return total


@regrouped
def _products(left: Any, right: Any) -> Any:
    total = 0.0
    for x in range(len(left)):
        total += np.float64(left[x] * right[x])
    return total


@regrouped
def _apart_products(diff: Any, src: Any, mean: Any) -> Any:
    total = 0.0
    for x in range(len(diff)):
        total += np.float64(diff[x] * (src[x] - mean))
    return total


@task(LAYOUT)
def norm_forward(table: Any, index: int, worker: int) -> None:
    """dst = (src - mean) / deviation, mean and variance of the batch or given."""
    t = carray(table, 1)[0]
    means, variances = floats(t.mean, t.channels), floats(t.variance, t.channels)
    for c in range(index * t.part, min((index + 1) * t.part, t.channels)):
        if t.of_batch:
            count = np.float64(t.outer * t.inner)
            total = 0.0
            for n in range(t.outer):
                total += _sum(_line(t, t.src, n, c))
            means[c] = np.float32(total / count)
            total = 0.0
            for n in range(t.outer):
                total += _squares(_line(t, t.src, n, c), means[c])
            variances[c] = np.float32(total / count)
        mean = means[c]
        scale = np.float32(1) / math.sqrt(variances[c] + np.float32(t.eps))
        for n in range(t.outer):
            src, dst = _line(t, t.src, n, c), _line(t, t.dst, n, c)
            for x in range(t.inner):
                dst[x] = (src[x] - mean) * scale


@task(LAYOUT)
def norm_backward(table: Any, index: int, worker: int) -> None:
    """The gradient of `norm_forward`; diff_src may be diff_dst."""
    t = carray(table, 1)[0]
    variances = floats(t.variance, t.channels)
    for c in range(index * t.part, min((index + 1) * t.part, t.channels)):
        scale = np.float32(1) / math.sqrt(variances[c] + np.float32(t.eps))
        if not t.of_batch:
            for n in range(t.outer):
                diff, out = _line(t, t.diff_dst, n, c), _line(t, t.diff_src, n, c)
                for x in range(t.inner):
                    out[x] = diff[x] * scale
            continue
        mean = floats(t.mean, t.channels)[c]
        total, along = 0.0, 0.0
        for n in range(t.outer):
            diff, src = _line(t, t.diff_dst, n, c), _line(t, t.src, n, c)
            total += _sum(diff)
            along += _apart_products(diff, src, mean)
        count = np.float64(t.outer * t.inner)
        common = np.float32(total / count)
        slope = np.float32(along / count) * scale * scale
        for n in range(t.outer):
            diff, src = _line(t, t.diff_dst, n, c), _line(t, t.src, n, c)
            out = _line(t, t.diff_src, n, c)
            for x in range(t.inner):
                out[x] = (diff[x] - common - (src[x] - mean) * slope) * scale


@task(LAYOUT)
def affine_forward(table: Any, index: int, worker: int) -> None:
    """dst = src * scale + bias; an address of 0 says that there is no such part."""
    t = carray(table, 1)[0]
    for c in range(index * t.part, min((index + 1) * t.part, t.channels)):
        scale = floats(t.scale, t.channels)[c] if t.scale else np.float32(1)
        bias = floats(t.bias, t.channels)[c] if t.bias else np.float32(0)
        for n in range(t.outer):
            src, dst = _line(t, t.src, n, c), _line(t, t.dst, n, c)
            if t.bias:
                for x in range(t.inner):
                    dst[x] = src[x] * scale + bias
            else:
                for x in range(t.inner):
                    dst[x] = src[x] * scale


@task(LAYOUT)
def affine_backward_weights(table: Any, index: int, worker: int) -> None:
    """Sums of src * diff_dst and of diff_dst over each channel."""
    t = carray(table, 1)[0]
    for c in range(index * t.part, min((index + 1) * t.part, t.channels)):
        if t.diff_scale:
            total = 0.0
            for n in range(t.outer):
                total += _products(_line(t, t.src, n, c), _line(t, t.diff_dst, n, c))
            out = floats(t.diff_scale, t.channels)
            out[c] = np.float32(total) + (out[c] if t.accumulate else np.float32(0))
        if t.diff_bias:
            total = 0.0
            for n in range(t.outer):
                total += _sum(_line(t, t.diff_dst, n, c))
            out = floats(t.diff_bias, t.channels)
            out[c] = np.float32(total) + (out[c] if t.accumulate else np.float32(0))


@task(LAYOUT)
def slope_forward(table: Any, index: int, worker: int) -> None:
    """dst = src where positive, else slope * src; dst may be src."""
    t = carray(table, 1)[0]
    for c in range(index * t.part, min((index + 1) * t.part, t.channels)):
        slope = floats(t.slope, t.channels)[c]
        for n in range(t.outer):
            src, dst = _line(t, t.src, n, c), _line(t, t.dst, n, c)
            for x in range(t.inner):
                dst[x] = src[x] if src[x] > 0 else slope * src[x]


@task(LAYOUT)
def slope_backward(table: Any, index: int, worker: int) -> None:
    """diff_src = diff_dst where src is positive, else slope * diff_dst; may be diff_dst."""
    t = carray(table, 1)[0]
    for c in range(index * t.part, min((index + 1) * t.part, t.channels)):
        slope = floats(t.slope, t.channels)[c]
        for n in range(t.outer):
            src, diff = _line(t, t.src, n, c), _line(t, t.diff_dst, n, c)
            out = _line(t, t.diff_src, n, c)
            for x in range(t.inner):
                out[x] = diff[x] * (np.float32(1) if src[x] > 0 else slope)


@regrouped
def _negative_products(left: Any, right: Any) -> Any:
    total = 0.0
    for x in range(len(left)):
        low = left[x] if not left[x] > 0 else np.float32(0)
        total += np.float64(low * right[x])
    return total


@task(LAYOUT)
def slope_backward_weights(table: Any, index: int, worker: int) -> None:
    """Sums of diff_dst * min(src, 0) over each channel, added to what is there."""
    t = carray(table, 1)[0]
    for c in range(index * t.part, min((index + 1) * t.part, t.channels)):
        total = 0.0
        for n in range(t.outer):
            total += _negative_products(_line(t, t.src, n, c), _line(t, t.diff_dst, n, c))
        floats(t.diff_slope, t.channels)[c] += np.float32(total)


TASK_OF: dict[type[Operator], Task] = {
    BatchNormForward: norm_forward,
    BatchNormBackward: norm_backward,
    AffineForward: affine_forward,
    AffineBackwardWeights: affine_backward_weights,
    PReluForward: slope_forward,
    PReluBackwardData: slope_backward,
    PReluBackwardWeights: slope_backward_weights,
}
_Channels = (
    BatchNormForward
    | BatchNormBackward
    | AffineForward
    | AffineBackwardWeights
    | PReluForward
    | PReluBackwardData
    | PReluBackwardWeights
)


class ChannelWise:
    """Candidate for batch normalisation, scale and shift, learned slopes."""

    name = "channel loops"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Those that have a task and at least one element."""
        assert isinstance(op, _Channels), op
        return None if op.outer * op.inner else Refusal("there is nothing to compute")

    def plan(self, op: Operator) -> Plan:
        """One job of equal numbers of channels."""
        assert isinstance(op, _Channels), op
        part = split_evenly(op.channels, TASKS)
        values: dict[str, float] = {"outer": op.outer, "channels": op.channels}
        values |= {"inner": op.inner, "part": part, "eps": getattr(op, "eps", 0.0)}
        for name in ("of_batch", "accumulate"):
            values[name] = int(getattr(op, name, False))
        jobs = [Job(TASK_OF[type(op)], -(-op.channels // part))]
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values)
