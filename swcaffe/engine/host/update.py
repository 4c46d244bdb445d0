"""The solvers' update rules: weights, gradient and histories read and written in one pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats
from swcaffe.engine.host.plans import Job, TaskPlan, Workspace, fields
from swcaffe.engine.host.team import Task, task
from swcaffe.operators.base import Operator
from swcaffe.operators.update import (
    AdaDeltaUpdate,
    AdaGradUpdate,
    AdamUpdate,
    NesterovUpdate,
    RmsPropUpdate,
    SgdUpdate,
    Update,
)

__all__ = ["UpdateRule"]

LAYOUT = fields(
    "hyper weights diff first second new_weights new_first new_second",
    "count part l1",
    "momentum delta beta1 beta2",
)
"""`first` and `second` are the rule's histories, in the operator's order."""

PART = 16384
"""Elements of a task."""


@compiled
def _views(t: Any, index: int) -> Any:
    """(hyper, weights, diff, new weights) of task number `index`."""
    skip = index * t.part
    count = min(t.part, t.count - skip)
    at = 4 * skip
    return (
        floats(t.hyper, 3),
        floats(t.weights + at, count),
        floats(t.diff + at, count),
        floats(t.new_weights + at, count),
    )


@compiled
def _history(t: Any, index: int, old: int, new: int) -> Any:
    """(old values, new values) of a history."""
    skip = index * t.part
    count = min(t.part, t.count - skip)
    return floats(old + 4 * skip, count), floats(new + 4 * skip, count)


@compiled
def _gradient(hyper: Any, diff: Any, weight: Any, l1: int) -> Any:
    """Scaled and regularised gradient of one element."""
    shrink = weight
    if l1:
        shrink = np.float32(weight > np.float32(0)) - np.float32(weight < np.float32(0))
    return hyper[2] * diff + hyper[1] * shrink


@task(LAYOUT)
def sgd(table: Any, index: int, worker: int) -> None:
    """Heavy ball."""
    t = carray(table, 1)[0]
    hyper, weights, diff, new_weights = _views(t, index)
    old, new = _history(t, index, t.first, t.new_first)
    momentum = np.float32(t.momentum)
    for i in range(len(weights)):
        w = weights[i]
        h = momentum * old[i] + hyper[0] * _gradient(hyper, diff[i], w, t.l1)
        new[i] = h
        new_weights[i] = w - h


@task(LAYOUT)
def nesterov(table: Any, index: int, worker: int) -> None:
    """Look-ahead momentum."""
    t = carray(table, 1)[0]
    hyper, weights, diff, new_weights = _views(t, index)
    old, new = _history(t, index, t.first, t.new_first)
    momentum, one = np.float32(t.momentum), np.float32(1)
    for i in range(len(weights)):
        w, before = weights[i], old[i]
        h = momentum * before + hyper[0] * _gradient(hyper, diff[i], w, t.l1)
        new[i] = h
        new_weights[i] = w - ((one + momentum) * h - momentum * before)


@task(LAYOUT)
def ada_grad(table: Any, index: int, worker: int) -> None:
    """Sum of squares."""
    t = carray(table, 1)[0]
    hyper, weights, diff, new_weights = _views(t, index)
    old, new = _history(t, index, t.first, t.new_first)
    delta = np.float32(t.delta)
    for i in range(len(weights)):
        w = weights[i]
        g = _gradient(hyper, diff[i], w, t.l1)
        h = old[i] + g * g
        new[i] = h
        new_weights[i] = w - hyper[0] * g / (math.sqrt(h) + delta)


@task(LAYOUT)
def rms_prop(table: Any, index: int, worker: int) -> None:
    """Moving mean of squares."""
    t = carray(table, 1)[0]
    hyper, weights, diff, new_weights = _views(t, index)
    old, new = _history(t, index, t.first, t.new_first)
    delta, decay = np.float32(t.delta), np.float32(t.momentum)
    rest = np.float32(1) - decay
    for i in range(len(weights)):
        w = weights[i]
        g = _gradient(hyper, diff[i], w, t.l1)
        h = decay * old[i] + rest * (g * g)
        new[i] = h
        new_weights[i] = w - hyper[0] * g / (math.sqrt(h) + delta)


@task(LAYOUT)
def ada_delta(table: Any, index: int, worker: int) -> None:
    """Squares of gradients and of steps."""
    t = carray(table, 1)[0]
    hyper, weights, diff, new_weights = _views(t, index)
    gradients, new_gradients = _history(t, index, t.first, t.new_first)
    steps, new_steps = _history(t, index, t.second, t.new_second)
    delta, momentum = np.float32(t.delta), np.float32(t.momentum)
    rest = np.float32(1) - momentum
    for i in range(len(weights)):
        w, step = weights[i], steps[i]
        g = _gradient(hyper, diff[i], w, t.l1)
        square = momentum * gradients[i] + rest * (g * g)
        u = g * math.sqrt((step + delta) / (square + delta))
        new_gradients[i] = square
        new_steps[i] = momentum * step + rest * (u * u)
        new_weights[i] = w - hyper[0] * u


@task(LAYOUT)
def adam(table: Any, index: int, worker: int) -> None:
    """Moving means of the gradient and of its square."""
    t = carray(table, 1)[0]
    hyper, weights, diff, new_weights = _views(t, index)
    means, new_means = _history(t, index, t.first, t.new_first)
    squares, new_squares = _history(t, index, t.second, t.new_second)
    beta1, beta2, delta = np.float32(t.beta1), np.float32(t.beta2), np.float32(t.delta)
    one = np.float32(1)
    for i in range(len(weights)):
        w = weights[i]
        g = _gradient(hyper, diff[i], w, t.l1)
        m = beta1 * means[i] + (one - beta1) * g
        v = beta2 * squares[i] + (one - beta2) * (g * g)
        new_means[i], new_squares[i] = m, v
        new_weights[i] = w - hyper[0] * m / (math.sqrt(v) + delta)


RULES: dict[type[Update], tuple[Task, dict[str, str]]] = {
    SgdUpdate: (sgd, {"momentum": "momentum"}),
    NesterovUpdate: (nesterov, {"momentum": "momentum"}),
    AdaGradUpdate: (ada_grad, {"delta": "delta"}),
    RmsPropUpdate: (rms_prop, {"momentum": "rms_decay", "delta": "delta"}),
    AdaDeltaUpdate: (ada_delta, {"momentum": "momentum", "delta": "delta"}),
    AdamUpdate: (adam, {"beta1": "beta1", "beta2": "beta2", "delta": "delta"}),
}
"""Operator class -> task, and word -> field of the operator."""


class UpdateRule:
    """Candidate for all update rules."""

    name = "one pass"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """The rules that have a task."""
        return None if type(op) in RULES else Refusal(f"no task for {type(op).__name__}")

    def plan(self, op: Operator) -> Plan:
        """One job of equal ranges."""
        assert isinstance(op, Update), op
        rule, numbers = RULES[type(op)]
        values = {word: getattr(op, name) for word, name in numbers.items()}
        values |= {"count": op.count, "part": PART, "l1": int(op.regularization == "L1")}
        histories = ("first", "second")[: len(op.histories)]
        names = ("hyper", "weights", "diff", *histories)
        names += ("new_weights", *(f"new_{h}" for h in histories))
        jobs = [Job(rule, -(-op.count // PART))]
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, names=names)
