"""Stochastic pooling: a running sum through each window up to the draw, one plane a task."""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats, ints
from swcaffe.engine.host.plans import Job, TaskPlan, Workspace, fields
from swcaffe.engine.host.team import task
from swcaffe.operators.base import Operator
from swcaffe.operators.stochastic_pooling import StochasticPoolForward

__all__ = ["StochasticPooling"]

LAYOUT = fields("src noise dst index", "ih iw oh ow kh kw sh sw ph pw")


@compiled
def _window(o: int, stride: int, pad: int, kernel: int, size: int) -> Any:
    """First place of a window inside the image, and the place behind its last."""
    start = o * stride - pad
    return max(start, 0), min(start + kernel, size)


@task(LAYOUT)
def draw(table: Any, index: int, worker: int) -> None:
    """The first element at which the running sum reaches (1 - noise) * sum, and its place."""
    t = carray(table, 1)[0]
    src, outputs = floats(t.src + 4 * index * t.ih * t.iw, t.ih * t.iw), t.oh * t.ow
    noise, dst = (
        floats(t.noise + 4 * index * outputs, outputs),
        floats(t.dst + 4 * index * outputs, outputs),
    )
    place = ints(t.index + 4 * index * outputs, outputs)
    for o in range(outputs):
        h0, h1 = _window(o // t.ow, t.sh, t.ph, t.kh, t.ih)
        w0, w1 = _window(o % t.ow, t.sw, t.pw, t.kw, t.iw)
        total = np.float32(0)
        for y in range(h0, h1):
            for x in range(w0, w1):
                total += src[y * t.iw + x]
        threshold = (np.float32(1) - noise[o]) * total
        found, running = h0 * t.iw + w0, np.float32(0)
        done = False
        for y in range(h0, h1):
            for x in range(w0, w1):
                running += src[y * t.iw + x]
                if running >= threshold and not done:
                    found, done = y * t.iw + x, True
        dst[o] = src[found]
        place[o] = found


@task(LAYOUT)
def expect(table: Any, index: int, worker: int) -> None:
    """The sum of squares over the sum, 0 where that is not positive."""
    t = carray(table, 1)[0]
    src, outputs = floats(t.src + 4 * index * t.ih * t.iw, t.ih * t.iw), t.oh * t.ow
    dst = floats(t.dst + 4 * index * outputs, outputs)
    for o in range(outputs):
        h0, h1 = _window(o // t.ow, t.sh, t.ph, t.kh, t.ih)
        w0, w1 = _window(o % t.ow, t.sw, t.pw, t.kw, t.iw)
        total, squares = np.float32(0), np.float32(0)
        for y in range(h0, h1):
            for x in range(w0, w1):
                value = src[y * t.iw + x]
                total += value
                squares += value * value
        dst[o] = squares / total if total > 0 else np.float32(0)


class StochasticPooling:
    """Candidate for draws and expectations."""

    name = "window loops"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Windows that all meet the image."""
        assert isinstance(op, StochasticPoolForward), op
        g = op.geometry
        for axis in (0, 1):
            if any(a >= b for a, b, _ in (g.window(axis, o) for o in range(g.out_size[axis]))):
                return Refusal("a window meets no element")
        return None

    def plan(self, op: Operator) -> Plan:
        """One task for each plane."""
        assert isinstance(op, StochasticPoolForward), op
        g = op.geometry
        values = {"ih": g.in_size[0], "iw": g.in_size[1], "oh": g.out_size[0], "ow": g.out_size[1]}
        values |= {"kh": g.kernel[0], "kw": g.kernel[1], "sh": g.stride[0], "sw": g.stride[1]}
        values |= {"ph": g.pad[0], "pw": g.pad[1]}
        jobs = [Job(draw if op.training else expect, g.n * g.c)]
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values)
