"""Pooling: one plane after the other, each tap of the window along a whole row of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats, ints
from swcaffe.engine.host.plans import Job, Scratch, TaskPlan, Workspace, fields, split_evenly
from swcaffe.engine.host.team import Task, task
from swcaffe.operators.base import Operator
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
)

__all__ = ["Pooling"]

LAYOUT = fields(
    "src dst index diff_dst diff_src",
    "planes part ih iw oh ow kh kw sh sw ph pw",
)
LOWEST = np.float32(-3.4028234663852886e38)
TASKS = 64
"""Tasks to aim at."""


@compiled
def _columns(t: Any, tap: int) -> tuple[int, int]:
    """Outputs [first, end) of a row whose window has column `tap` inside the image."""
    skip = tap - t.pw
    first = max(0, (-skip + t.sw - 1) // t.sw)
    end = min(t.ow, (t.iw - 1 - skip) // t.sw + 1)
    return first, max(first, end)


@compiled
def _rows(t: Any, o: int) -> tuple[int, int]:
    """Input rows [first, end) of window row `o`."""
    start = o * t.sh - t.ph
    return max(start, 0), min(start + t.kh, t.ih)


@compiled
def _raise(best: Any, place: Any, line: Any, step: int, at: int) -> None:
    """Keep the larger of `best` and the elements of `line`, `step` apart; the first wins a tie."""
    for x in range(len(best)):
        value = line[x * step]
        larger = value > best[x]
        best[x] = value if larger else best[x]
        place[x] = np.int32(at + x * step) if larger else place[x]


@task(LAYOUT)
def max_forward(table: Any, index: int, worker: int) -> None:
    """Largest value of each window of some planes, and where it is."""
    t = carray(table, 1)[0]
    for plane in range(index * t.part, min((index + 1) * t.part, t.planes)):
        image = t.src + 4 * plane * t.ih * t.iw
        for o in range(t.oh):
            out = 4 * (plane * t.oh + o) * t.ow
            best, place = floats(t.dst + out, t.ow), ints(t.index + out, t.ow)
            for x in range(t.ow):
                best[x] = LOWEST
                place[x] = -1
            low, high = _rows(t, o)
            for row in range(low, high):
                for tap in range(t.kw):
                    first, end = _columns(t, tap)
                    at = row * t.iw + first * t.sw + tap - t.pw
                    line = floats(image + 4 * at, (end - first) * t.sw)
                    b, p = best[first:end], place[first:end]
                    if t.sw == 1:
                        _raise(b, p, line, 1, at)
                    elif t.sw == 2:
                        _raise(b, p, line, 2, at)
                    else:
                        _raise(b, p, line, t.sw, at)


@task(LAYOUT)
def max_backward(table: Any, index: int, worker: int) -> None:
    """Each gradient goes to where its maximum was."""
    t = carray(table, 1)[0]
    for plane in range(index * t.part, min((index + 1) * t.part, t.planes)):
        out = floats(t.diff_src + 4 * plane * t.ih * t.iw, t.ih * t.iw)
        for x in range(t.ih * t.iw):
            out[x] = 0
        at = 4 * plane * t.oh * t.ow
        diff, place = floats(t.diff_dst + at, t.oh * t.ow), ints(t.index + at, t.oh * t.ow)
        for x in range(t.oh * t.ow):
            p = place[x]
            if p >= 0:
                out[np.uint32(p)] += diff[x]


@compiled
def _padded_rows(t: Any, o: int) -> int:
    """Rows that the divisor of window row `o` counts."""
    start = o * t.sh - t.ph
    return min(start + t.kh, t.ih + t.ph) - start


@compiled
def _padded_columns(t: Any, o: int) -> int:
    """Columns that the divisor of window column `o` counts."""
    start = o * t.sw - t.pw
    return min(start + t.kw, t.iw + t.pw) - start


@compiled
def _add_from(out: Any, line: Any, step: int) -> None:
    """Add elements of `line`, `step` apart, to `out`."""
    for x in range(len(out)):
        out[x] += line[x * step]


@compiled
def _add_to(line: Any, values: Any, step: int) -> None:
    """Add `values` to elements of `line`, `step` apart."""
    for x in range(len(values)):
        line[x * step] += values[x]


@task(LAYOUT)
def ave_forward(table: Any, index: int, worker: int) -> None:
    """Mean of each window of some planes."""
    t = carray(table, 1)[0]
    for plane in range(index * t.part, min((index + 1) * t.part, t.planes)):
        image = t.src + 4 * plane * t.ih * t.iw
        for o in range(t.oh):
            out = floats(t.dst + 4 * (plane * t.oh + o) * t.ow, t.ow)
            for x in range(t.ow):
                out[x] = 0
            low, high = _rows(t, o)
            for row in range(low, high):
                for tap in range(t.kw):
                    first, end = _columns(t, tap)
                    at = row * t.iw + first * t.sw + tap - t.pw
                    line = floats(image + 4 * at, (end - first) * t.sw)
                    if t.sw == 1:
                        _add_from(out[first:end], line, 1)
                    elif t.sw == 2:
                        _add_from(out[first:end], line, 2)
                    else:
                        _add_from(out[first:end], line, t.sw)
            rows = _padded_rows(t, o)
            for x in range(t.ow):
                out[x] /= np.float32(rows * _padded_columns(t, x))


@task(LAYOUT)
def ave_backward(table: Any, index: int, worker: int) -> None:
    """Each gradient spread over its window."""
    t = carray(table, 1)[0]
    share = floats(t.private + worker * t.private_bytes, t.ow)
    for plane in range(index * t.part, min((index + 1) * t.part, t.planes)):
        start = t.diff_src + 4 * plane * t.ih * t.iw
        whole = floats(start, t.ih * t.iw)
        for x in range(t.ih * t.iw):
            whole[x] = 0
        for o in range(t.oh):
            diff = floats(t.diff_dst + 4 * (plane * t.oh + o) * t.ow, t.ow)
            rows = _padded_rows(t, o)
            for x in range(t.ow):
                share[x] = diff[x] / np.float32(rows * _padded_columns(t, x))
            low, high = _rows(t, o)
            for row in range(low, high):
                for tap in range(t.kw):
                    first, end = _columns(t, tap)
                    at = row * t.iw + first * t.sw + tap - t.pw
                    line = floats(start + 4 * at, (end - first) * t.sw)
                    if t.sw == 1:
                        _add_to(line, share[first:end], 1)
                    elif t.sw == 2:
                        _add_to(line, share[first:end], 2)
                    else:
                        _add_to(line, share[first:end], t.sw)


JOBS: dict[type[Operator], Task] = {
    MaxPoolForward: max_forward,
    MaxPoolBackward: max_backward,
    AvePoolForward: ave_forward,
    AvePoolBackward: ave_backward,
}


class Pooling:
    """Candidate for maximum and mean, both directions."""

    name = "row loops"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """The operators that have a task."""
        return None if type(op) in JOBS else Refusal(f"no task for {type(op).__name__}")

    def plan(self, op: Operator) -> Plan:
        """One job of equal numbers of planes."""
        assert isinstance(op, MaxPoolForward | MaxPoolBackward | AvePoolForward | AvePoolBackward)
        g = op.geometry
        planes = g.n * g.c
        part = split_evenly(planes, TASKS)
        values: dict[str, int] = {"planes": planes, "part": part}
        values |= {"ih": g.in_size[0], "iw": g.in_size[1], "oh": g.out_size[0], "ow": g.out_size[1]}
        values |= {"kh": g.kernel[0], "kw": g.kernel[1], "sh": g.stride[0], "sw": g.stride[1]}
        values |= {"ph": g.pad[0], "pw": g.pad[1]}
        jobs = [Job(JOBS[type(op)], -(-planes // part))]
        scratch = Scratch(0, 4 * g.out_size[1])
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, scratch=scratch)
