"""Gradient to the data of any convolution: products first, then each image line gathers its own.

One task computes some input channels of one image. Tiles of `weights.T @ diff_dst` are spread to
lines, one for each tap and line of outputs, with zeros between them. Then each line of the image is
the sum of all lines of taps that meet it, shifted by the taps' places and added in registers: one
pass over the image, where col2im makes one for each tap.
"""

from __future__ import annotations

import math
from typing import Any

from swcaffe.engine.host.correlate import pack_words
from swcaffe.engine.host.images import LAYOUT, Axes, join_line, piece_up
from swcaffe.engine.host.native import carray, compiled, words
from swcaffe.engine.host.plans import Scratch, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.engine.host.vectors import copy_lanes, copy_words, sum_rows, zero_words
from swcaffe.kernels import COLS, ROWS, WIDTH, outer_tile

__all__ = ["scatter", "scatter_values"]

LINE_BYTES = 192 * 1024
"""Lines of a task, at least one channel; they stay in the second-level cache."""


@compiled
def _pack_outputs(t: Any, source: int, first: int, panel: int) -> None:
    """Panel (outputs, COLS) of the positions from `first` on, anything behind the last."""
    end = t.dst + 4 * t.n * t.groups * t.outputs * t.positions
    width = min(COLS, t.positions - first)
    for p in range(t.outputs):
        start = source + 4 * (p * t.positions + first)
        copy_words(start, panel + 4 * p * COLS, width, (end - start) // 4)


@compiled
def _spread(t: Any, tile: int, rows: int, pieces: Any, first: int, last: int, to: int) -> None:
    """Move a tile's pieces to their lines, zeros behind them."""
    for r in range(rows):
        source, target = tile + 4 * r * COLS, to + 4 * r * t.pitch
        for p in range(first, last):
            copy_lanes(source + 4 * pieces[2, p], target + 4 * pieces[0, p], pieces[3, p])


@compiled
def _output(place: int, stride: int, outputs: int) -> int:
    """The output whose window starts at a padded place, -1 if there is none."""
    if stride > 1:
        if place % stride != 0:
            return -1
        place //= stride
    return place if place < outputs else -1


@compiled
def _gather_line(t: Any, lines: int, z: int, y: int, starts: Any, line: int) -> None:
    """Line (z, y) of the padded image of one channel, split by phase, from the lines of its taps.

    Taps t2, t2 + tap_step, … of a kernel line meet the same phase, each `tap_shift` words further.
    """
    taps1 = t.taps // (t.taps0 * t.taps2)
    pitch = 4 * (t.tap_step * t.pitch - t.tap_shift)
    for phase in range(t.phases):
        zero_words(line + 4 * phase * t.line_pitch, t.columns)
    for t2 in range(min(t.tap_step, t.taps2)):
        number = 0
        for t0 in range(t.taps0):
            o0 = _output(z - t0 * t.dilation0, t.stride0, t.out0)
            if o0 < 0:
                continue
            for t1 in range(taps1):
                o1 = _output(y - t1 * t.dilation1, t.stride1, t.out1)
                if o1 >= 0:
                    tap = (t0 * taps1 + t1) * t.taps2 + t2
                    at = tap * t.pitch + (o0 * t.out1 + o1) * t.spread + t.gap
                    starts[number] = lines + 4 * at
                    number += 1
        x_in = t2 * t.dilation2
        shift = x_in // t.phases
        target = line + 4 * (x_in % t.phases * t.line_pitch + shift)
        count = (t.taps2 - t2 + t.tap_step - 1) // t.tap_step
        width = t.out2 + (count - 1) * t.tap_shift
        for x in range(0, width, WIDTH):
            sum_rows(target + 4 * x, starts.ctypes.data, number, 4 * x, pitch, count)
        zero_words(target + 4 * width, t.columns - shift - width)


@task(LAYOUT)
def scatter(table: Any, index: int, worker: int) -> None:
    """Some input channels of one image."""
    t = carray(table, 1)[0]
    channel_blocks = (t.channels + t.block - 1) // t.block
    c0 = index % channel_blocks * t.block
    group = index // channel_blocks % t.groups
    n = index // channel_blocks // t.groups
    channels = min(t.block, t.channels - c0)
    tap_rows = channels * t.taps
    scratch = t.private + worker * t.private_bytes
    lines, panel, tile = scratch, scratch + t.panels_at, scratch + t.tile_at
    pieces = words(scratch + t.pieces_at, 4 * t.positions).reshape(4, t.positions)
    zero_words(lines, tap_rows * t.pitch)
    count = piece_up(t, 0, t.positions, 0, 0, t.out1 * t.spread, t.spread, pieces)
    diff_dst = t.dst + 4 * (n * t.groups + group) * t.outputs * t.positions
    packed = t.shared + 4 * (group * t.rows + c0 * t.taps) * t.depth
    piece = 0
    for first in range(0, t.positions, COLS):
        _pack_outputs(t, diff_dst, first, panel)
        last = piece
        while last < count and pieces[1, last] == first // COLS:
            last += 1
        for i in range(0, tap_rows, t.row_step):
            rows = min(t.row_step, tap_rows - i)
            outer_tile(rows, t.depth, packed + 4 * i * t.depth, panel, tile, COLS, 0)
            _spread(t, tile, rows, pieces, piece, last, lines + 4 * (i * t.pitch + t.gap))
        piece = last
    starts = words(scratch + t.lines_at, t.taps)
    line = scratch + t.lines_at + 8 * t.taps
    spare = line + 4 * t.phases * t.line_pitch
    out = t.src + 4 * ((n * t.groups + group) * t.channels + c0) * t.in0 * t.in1 * t.in2
    room = channels * t.in0 * t.in1 * t.in2
    for c in range(channels):
        for z in range(t.in0):
            for y in range(t.in1):
                here = lines + 4 * c * t.taps * t.pitch
                _gather_line(t, here, z + t.pad0, y + t.pad1, starts, line)
                join_line(t, line, t.line_pitch, out, room, spare)
                out += 4 * t.in2
                room -= t.in2


def scatter_values(axes: Axes) -> tuple[dict[str, Any], int, Scratch]:
    """Words, number of tasks and scratch of `scatter`, packing of the weights included."""
    stride, dilation, taps2 = axes.stride[2], axes.dilation[2], axes.kernel[2]
    step = stride // math.gcd(stride, dilation)
    shift = step * dilation // stride
    gap = (taps2 - 1) // step * shift
    spread = axes.out_size[2] + gap
    pitch = axes.out_size[0] * axes.out_size[1] * spread + gap + WIDTH
    columns = max(axes.columns, -(-(axes.in_size[2] + axes.pad[2]) // stride))
    line_pitch = columns + 2 * WIDTH
    most = max(1, LINE_BYTES // (4 * axes.taps * pitch))
    block = split_evenly(axes.channels, -(-axes.channels // most))
    tap_rows = axes.channels * axes.taps
    panels_at = -(-4 * (block * axes.taps * pitch + WIDTH) // 64) * 64
    tile_at = panels_at + 4 * (axes.outputs * COLS + WIDTH)
    pieces_at = tile_at + 4 * (ROWS * COLS + WIDTH)
    lines_at = pieces_at + 8 * 4 * axes.positions
    values = {
        **axes.words(),
        **pack_words(tap_rows, block * axes.taps, axes.outputs, axes.outputs * tap_rows),
        "w_row": 1,
        "w_channel": tap_rows,
        "w_taps": 1,
        "tap_step": step,
        "tap_shift": shift,
        "spread": spread,
        "gap": gap,
        "block": block,
        "pitch": pitch,
        "columns": columns,
        "line_pitch": line_pitch,
        "panels_at": panels_at,
        "tile_at": tile_at,
        "pieces_at": pieces_at,
        "lines_at": lines_at,
    }
    count = axes.n * axes.groups * -(-axes.channels // block)
    scratch = lines_at + 8 * axes.taps + 8 * stride * line_pitch
    return values, count, Scratch(4 * axes.groups * tap_rows * axes.outputs, scratch)
