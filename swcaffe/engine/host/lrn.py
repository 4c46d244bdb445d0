"""Local response normalisation: sums over windows of lines, vectorised along the pixels.

A task owns some pixels of an image with all their channels (across), or some planes (within).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats
from swcaffe.engine.host.plans import Job, Scratch, TaskPlan, Workspace, fields
from swcaffe.engine.host.team import Task, task
from swcaffe.operators.base import Operator
from swcaffe.operators.lrn import LrnBackward, LrnForward

__all__ = ["Normalisation"]

LAYOUT = fields("src dst scale diff_dst diff_src", "n c h w size blocks", "k weight beta")
PIXELS = 128
"""Pixels of a task that sums across channels: their channels stay in the second-level cache."""


@compiled
def _powers(scale: Any, beta: float, out: Any) -> None:
    """Scale^-beta; by square roots for Caffe's default 0.75."""
    if beta == 0.75:
        for x in range(len(out)):
            root = math.sqrt(scale[x])
            out[x] = np.float32(1) / (root * math.sqrt(root))
    else:
        for x in range(len(out)):
            out[x] = scale[x] ** np.float32(-beta)


@compiled
def _load(t: Any, at: int, values: Any, back: bool) -> None:
    """What is summed: squares, or diff_dst * scale^-beta * src / scale."""
    src = floats(t.src + 4 * at, len(values))
    if back:
        diff, scale = (
            floats(t.diff_dst + 4 * at, len(values)),
            floats(t.scale + 4 * at, len(values)),
        )
        _powers(scale, t.beta, values)
        for x in range(len(values)):
            values[x] = diff[x] * values[x] * src[x] / scale[x]
    else:
        for x in range(len(values)):
            values[x] = src[x] * src[x]


@compiled
def _finish(t: Any, at: int, sums: Any, power: Any, back: bool) -> None:
    """From the window sums of some pixels to the outputs."""
    src, scale = floats(t.src + 4 * at, len(sums)), floats(t.scale + 4 * at, len(sums))
    weight = np.float32(t.weight)
    if back:
        diff, out = floats(t.diff_dst + 4 * at, len(sums)), floats(t.diff_src + 4 * at, len(sums))
        factor = np.float32(2 * t.weight * t.beta)
        _powers(scale, t.beta, power)
        for x in range(len(sums)):
            out[x] = diff[x] * power[x] - factor * src[x] * sums[x]
    else:
        dst, k = floats(t.dst + 4 * at, len(sums)), np.float32(t.k)
        for x in range(len(sums)):
            scale[x] = k + weight * sums[x]
        _powers(scale, t.beta, power)
        for x in range(len(sums)):
            dst[x] = src[x] * power[x]


@compiled
def _add_lines(lines: Any, first: int, number: int, pitch: int, out: Any) -> None:
    """Sum of `number` lines, `pitch` apart."""
    for x in range(len(out)):
        out[x] = 0
    for j in range(number):
        line = lines[first + j * pitch :]
        for x in range(len(out)):
            out[x] += line[x]


@compiled
def _across(t: Any, index: int, scratch: int, back: bool) -> None:
    """Some pixels of an image, all channels."""
    plane, half = t.h * t.w, t.size // 2
    n, first = index // t.blocks, index % t.blocks * PIXELS
    count = min(PIXELS, plane - first)
    lines = floats(scratch, (t.c + 2 * half) * PIXELS)
    rest = scratch + 4 * len(lines)
    sums, power = floats(rest, count), floats(rest + 4 * PIXELS, count)
    for x in range(half * PIXELS):
        lines[x] = 0
        lines[(t.c + half) * PIXELS + x] = 0
    for c in range(t.c):
        start = (half + c) * PIXELS
        _load(t, (n * t.c + c) * plane + first, lines[start : start + count], back)
    for c in range(t.c):
        _add_lines(lines, c * PIXELS, t.size, PIXELS, sums)
        _finish(t, (n * t.c + c) * plane + first, sums, power, back)


@compiled
def _within(t: Any, index: int, scratch: int, back: bool) -> None:
    """One plane: along its lines first, then across them."""
    half = t.size // 2
    wide, tall = t.w + 2 * half, t.h + 2 * half
    line, rows = floats(scratch, wide), floats(scratch + 4 * wide, tall * t.w)
    rest = scratch + 4 * (wide + tall * t.w)
    sums, power = floats(rest, t.w), floats(rest + 4 * t.w, t.w)
    for x in range(wide):
        line[x] = 0
    for x in range(half * t.w):
        rows[x] = 0
        rows[(t.h + half) * t.w + x] = 0
    for y in range(t.h):
        _load(t, (index * t.h + y) * t.w, line[half : half + t.w], back)
        start = (half + y) * t.w
        _add_lines(line, 0, t.size, 1, rows[start : start + t.w])
    for y in range(t.h):
        _add_lines(rows, y * t.w, t.size, t.w, sums)
        _finish(t, (index * t.h + y) * t.w, sums, power, back)


@task(LAYOUT)
def across_forward(table: Any, index: int, worker: int) -> None:
    """Values over windows of channels."""
    t = carray(table, 1)[0]
    _across(t, index, t.private + worker * t.private_bytes, False)


@task(LAYOUT)
def across_backward(table: Any, index: int, worker: int) -> None:
    """Gradients over windows of channels."""
    t = carray(table, 1)[0]
    _across(t, index, t.private + worker * t.private_bytes, True)


@task(LAYOUT)
def within_forward(table: Any, index: int, worker: int) -> None:
    """Values over windows of pixels."""
    t = carray(table, 1)[0]
    _within(t, index, t.private + worker * t.private_bytes, False)


@task(LAYOUT)
def within_backward(table: Any, index: int, worker: int) -> None:
    """Gradients over windows of pixels."""
    t = carray(table, 1)[0]
    _within(t, index, t.private + worker * t.private_bytes, True)


TASK_OF: dict[tuple[type[Operator], str], Task] = {
    (LrnForward, "across"): across_forward,
    (LrnBackward, "across"): across_backward,
    (LrnForward, "within"): within_forward,
    (LrnBackward, "within"): within_backward,
}


class Normalisation:
    """Candidate for local response normalisation, both regions and directions."""

    name = "window sums"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Windows with a middle."""
        assert isinstance(op, LrnForward | LrnBackward), op
        size = op.geometry.size
        return None if size % 2 else Refusal(f"the window of {size} has no middle")

    def plan(self, op: Operator) -> Plan:
        """One job of blocks of pixels, or of planes."""
        assert isinstance(op, LrnForward | LrnBackward), op
        g = op.geometry
        blocks = -(-g.h * g.w // PIXELS)
        values: dict[str, float] = {"n": g.n, "c": g.c, "h": g.h, "w": g.w, "size": g.size}
        values |= {"blocks": blocks, "k": g.k, "weight": g.weight, "beta": g.beta}
        if g.region == "across":
            count, words = g.n * blocks, (g.c + g.size + 2) * PIXELS
        else:
            count, words = g.n * g.c, (g.w + g.size) * (g.h + g.size + 4)
        jobs = [Job(TASK_OF[type(op), g.region], count)]
        scratch = Scratch(0, 4 * words)
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, scratch=scratch)
