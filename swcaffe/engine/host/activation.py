"""Elementwise activations: vectorised loops over equal ranges of the array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.functions import tanh
from swcaffe.engine.host.native import carray, floats
from swcaffe.engine.host.plans import Job, TaskPlan, Workspace, fields
from swcaffe.engine.host.team import task
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.base import Operator

__all__ = ["Activation"]

FORWARD = fields("src dst", "kind count part", "alpha")
BACKWARD = fields("src dst diff_dst diff_src", "kind count part", "alpha")
KINDS = ("relu", "sigmoid", "tanh", "elu")
PART = 16384
"""Elements of a task: their three arrays stay in the second-level cache."""


@task(FORWARD)
def forward(table: Any, index: int, worker: int) -> None:
    """Dst = f(src)."""
    t = carray(table, 1)[0]
    skip = index * t.part
    count = min(t.part, t.count - skip)
    src, dst = floats(t.src + 4 * skip, count), floats(t.dst + 4 * skip, count)
    alpha, kind = np.float32(t.alpha), t.kind
    zero, half = np.float32(0), np.float32(0.5)
    if kind == 0:
        for i in range(count):
            x = src[i]
            dst[i] = x if x > zero else alpha * x
    elif kind == 1:
        for i in range(count):
            dst[i] = half * tanh(half * src[i]) + half
    elif kind == 2:
        for i in range(count):
            dst[i] = tanh(src[i])
    else:
        for i in range(count):
            x = src[i]
            dst[i] = x if x > zero else alpha * (math.expm1(x))


@task(BACKWARD)
def backward(table: Any, index: int, worker: int) -> None:
    """diff_src = diff_dst * f'(src)."""
    t = carray(table, 1)[0]
    skip = index * t.part
    count = min(t.part, t.count - skip)
    src, dst = floats(t.src + 4 * skip, count), floats(t.dst + 4 * skip, count)
    diff_dst = floats(t.diff_dst + 4 * skip, count)
    diff_src = floats(t.diff_src + 4 * skip, count)
    alpha, kind = np.float32(t.alpha), t.kind
    zero, one = np.float32(0), np.float32(1)
    if kind == 0:
        for i in range(count):
            diff_src[i] = diff_dst[i] * (one if src[i] > zero else alpha)
    elif kind == 1:
        for i in range(count):
            diff_src[i] = diff_dst[i] * dst[i] * (one - dst[i])
    elif kind == 2:
        for i in range(count):
            diff_src[i] = diff_dst[i] * (one - dst[i] * dst[i])
    else:
        for i in range(count):
            diff_src[i] = diff_dst[i] * (one if src[i] > zero else dst[i] + alpha)


class Activation:
    """Candidate for all activations, both directions."""

    name = "vector loops"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Every activation."""
        return None

    def plan(self, op: Operator) -> Plan:
        """One job of equal ranges."""
        assert isinstance(op, ActivationForward | ActivationBackward), op
        ahead = isinstance(op, ActivationForward)
        values = {
            "kind": KINDS.index(op.kind),
            "count": op.count,
            "part": PART,
            "alpha": op.alpha,
        }
        job = Job(forward if ahead else backward, -(-op.count // PART))
        layout = FORWARD if ahead else BACKWARD
        return TaskPlan(op, self.name, self.workspace, [job], layout, values)
