"""Pooling: one plane after the other, each tap of the window along a whole row of outputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats, ints, words
from swcaffe.engine.host.plans import Job, Scratch, TaskPlan, Workspace, fields, split_evenly
from swcaffe.engine.host.team import Task, task
from swcaffe.engine.host.vectors import (
    best_of,
    copy_words,
    join_pairs,
    split_pairs,
    sum_rows,
    zero_words,
)
from swcaffe.kernels import WIDTH
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
    "planes part ih iw oh ow kh kw sh sw ph pw rows wide columns line_at",
)
LOWEST = np.float32(-3.4028234663852886e38)
TASKS = 64
"""Tasks to aim at."""


@compiled
def _split(t: Any, plane: int, copy: int, spare: int, fill: Any) -> None:
    """Padded copy of a plane, each line split by column stride: (row, x % sw, x // sw)."""
    end = t.src + 4 * t.planes * t.ih * t.iw
    left, count = min(t.pw, t.wide), max(0, min(t.iw, t.wide - t.pw))
    for row in range(t.rows):
        line = copy + 4 * row * t.sw * t.columns
        whole = line if t.sw == 1 else spare
        values = floats(whole, t.wide)
        y = row - t.ph
        if 0 <= y < t.ih:
            source = plane + 4 * y * t.iw
            copy_words(source, whole + 4 * left, count, (end - source) // 4)
            for x in range(left):
                values[x] = fill
            for x in range(left + count, t.wide):
                values[x] = fill
        else:
            for x in range(t.wide):
                values[x] = fill
        if t.sw == 2:
            for x in range(0, t.columns, WIDTH):
                split_pairs(whole + 8 * x, line + 4 * x, line + 4 * (t.columns + x))
        elif t.sw > 2:
            for phase in range(t.sw):
                out = floats(line + 4 * phase * t.columns, t.columns)
                for x in range((t.wide - phase + t.sw - 1) // t.sw):
                    out[x] = values[x * t.sw + phase]


@compiled
def _tables(t: Any, at: int) -> Any:
    """Per tap, word offset in a split copy and place in the image; WIDTH spare words behind."""
    taps = t.kh * t.kw
    offsets, places = words(at, taps), words(at + 8 * taps, taps)
    for i in range(t.kh):
        for j in range(t.kw):
            line = (i * t.sw + j % t.sw) * t.columns
            offsets[i * t.kw + j] = line + j // t.sw
            places[i * t.kw + j] = i * t.iw + j
    return offsets, places, at + 16 * taps


@task(LAYOUT)
def max_forward(table: Any, index: int, worker: int) -> None:
    """Largest value of each window of some planes, and where it is."""
    t = carray(table, 1)[0]
    copy = t.private + worker * t.private_bytes
    offsets, places, spare = _tables(t, copy + t.line_at)
    last = min((index + 1) * t.part, t.planes)
    room = (last - index * t.part) * t.oh * t.ow
    at = 4 * index * t.part * t.oh * t.ow
    for plane in range(index * t.part, last):
        _split(t, t.src + 4 * plane * t.ih * t.iw, copy, spare, LOWEST)
        for o in range(t.oh):
            row = copy + 4 * o * t.sh * t.sw * t.columns
            corner = (o * t.sh - t.ph) * t.iw - t.pw
            for x in range(0, t.ow, WIDTH):
                best, place = t.dst + at + 4 * x, t.index + at + 4 * x
                fits = room - x >= WIDTH
                out, where = (best, place) if fits else (spare, spare + 4 * WIDTH)
                best_of(
                    out,
                    where,
                    row + 4 * x,
                    offsets.ctypes.data,
                    places.ctypes.data,
                    t.kh * t.kw,
                    corner + x * t.sw,
                    t.sw,
                )
                if not fits:
                    count = t.ow - x
                    _copy_some(floats(out, count), floats(best, count))
                    _copy_some(floats(where, count), floats(place, count))
            at += 4 * t.ow
            room -= t.ow


@compiled
def _copy_some(source: Any, target: Any) -> None:
    for x in range(len(source)):
        target[x] = source[x]


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
def _padded_rows(t: Any, o: int) -> Any:
    """Rows that the divisor of window row `o` counts."""
    start = o * t.sh - t.ph
    return min(start + t.kh, t.ih + t.ph) - start


@compiled
def _padded_columns(t: Any, o: int) -> Any:
    """Columns that the divisor of window column `o` counts."""
    start = o * t.sw - t.pw
    return min(start + t.kw, t.iw + t.pw) - start


@task(LAYOUT)
def ave_forward(table: Any, index: int, worker: int) -> None:
    """Mean of each window of some planes."""
    t = carray(table, 1)[0]
    copy = t.private + worker * t.private_bytes
    offsets, starts, spare = _tables(t, copy + t.line_at)
    total, divisor = floats(spare, t.ow + WIDTH), floats(spare + 4 * (t.ow + WIDTH), t.ow)
    for plane in range(index * t.part, min((index + 1) * t.part, t.planes)):
        _split(t, t.src + 4 * plane * t.ih * t.iw, copy, spare, np.float32(0))
        for o in range(t.oh):
            for tap in range(t.kh * t.kw):
                starts[tap] = copy + 4 * (o * t.sh * t.sw * t.columns + offsets[tap])
            for x in range(0, t.ow, WIDTH):
                sum_rows(spare + 4 * x, starts.ctypes.data, t.kh * t.kw, 4 * x, 0, 1)
            if o == 0 or o == t.oh - 1 or _padded_rows(t, o) != _padded_rows(t, o - 1):
                for x in range(t.ow):
                    divisor[x] = np.float32(_padded_rows(t, o) * _padded_columns(t, x))
            out = floats(t.dst + 4 * (plane * t.oh + o) * t.ow, t.ow)
            for x in range(t.ow):
                out[x] = total[x] / divisor[x]


@compiled
def _shares(t: Any, diff: int, shares: int) -> None:
    """Each gradient of a plane divided by its window's size, in lines with zeros around them."""
    pitch, gap = t.columns + 2 * WIDTH, (t.kw - 1) // t.sw
    for o in range(t.oh):
        source = floats(diff + 4 * o * t.ow, t.ow)
        out = floats(shares + 4 * (o * pitch + gap), t.ow)
        rows = _padded_rows(t, o)
        for x in range(t.ow):
            out[x] = source[x] / np.float32(rows * _padded_columns(t, x))


@compiled
def _windows(t: Any, y: int, phase: int, shares: int, starts: Any) -> int:
    """Where the shares begin that meet padded row `y` in the columns of a phase; their number."""
    pitch, gap = t.columns + 2 * WIDTH, (t.kw - 1) // t.sw
    number = 0
    for i in range(t.kh):
        o = y - i
        if o < 0 or (t.sh > 1 and o % t.sh != 0):
            continue
        if t.sh > 1:
            o //= t.sh
        if o >= t.oh:
            continue
        for shift in range((t.kw - phase + t.sw - 1) // t.sw):
            starts[number] = shares + 4 * (o * pitch + gap - shift)
            number += 1
    return number


@task(LAYOUT)
def ave_backward(table: Any, index: int, worker: int) -> None:
    """Each gradient spread over its window: every input line is the sum of lines of shares."""
    t = carray(table, 1)[0]
    shares = t.private + worker * t.private_bytes
    starts = words(shares + t.line_at, t.kh * t.kw)
    line = shares + t.line_at + 16 * t.kh * t.kw
    whole = line + 4 * t.sw * t.columns
    zero_words(shares, t.oh * (t.columns + 2 * WIDTH))
    last = min((index + 1) * t.part, t.planes)
    room = (last - index * t.part) * t.ih * t.iw
    out = t.diff_src + 4 * index * t.part * t.ih * t.iw
    for plane in range(index * t.part, last):
        _shares(t, t.diff_dst + 4 * plane * t.oh * t.ow, shares)
        for y in range(t.ih):
            for phase in range(t.sw):
                number = _windows(t, y + t.ph, phase, shares, starts)
                part = line + 4 * phase * t.columns
                for x in range(0, t.columns, WIDTH):
                    sum_rows(part + 4 * x, starts.ctypes.data, number, 4 * x, 0, 1)
            joined = whole if t.sw > 1 else line
            if t.sw == 2:
                for x in range(0, t.columns, WIDTH):
                    join_pairs(line + 4 * x, line + 4 * (t.columns + x), whole + 8 * x)
            elif t.sw > 2:
                mixed = floats(whole, t.columns * t.sw)
                for phase in range(t.sw):
                    values = floats(line + 4 * phase * t.columns, t.columns)
                    for x in range(t.columns):
                        mixed[x * t.sw + phase] = values[x]
            copy_words(joined + 4 * t.pw, out, t.iw, room)
            out += 4 * t.iw
            room -= t.iw


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
        rows, wide = (
            (o - 1) * stride + k
            for o, stride, k in zip(g.out_size, g.stride, g.kernel, strict=True)
        )
        reach = max(wide, g.in_size[1] + g.pad[1])
        columns = -(-reach // (g.stride[1] * WIDTH)) * WIDTH
        copy = max(rows * columns * g.stride[1], g.out_size[0] * (columns + 2 * WIDTH))
        line_at = -(-4 * (copy + WIDTH) // 64) * 64
        values |= {"rows": rows, "wide": wide, "columns": columns, "line_at": line_at}
        spare = 4 * (2 * columns * g.stride[1] + g.out_size[1] + 4 * WIDTH)
        scratch = Scratch(0, line_at + 16 * math.prod(g.kernel) + spare)
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, scratch=scratch)
