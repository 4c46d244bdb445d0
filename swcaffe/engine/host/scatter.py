"""Gradient to the data of any convolution: products first, then each image line gathers its own.

One task computes some input channels of one image. Tiles of `weights.T @ diff_dst` are spread to
lines, one for each tap and line of outputs, with zeros on both sides. Then each line of the image
copy (see images.py) adds the lines of all taps of a kernel line in one go, shifted by the taps'
places: far fewer passes over the image than adding column after column, as col2im does.
"""

from __future__ import annotations

import math
from typing import Any

from swcaffe.engine.host.correlate import pack_words
from swcaffe.engine.host.images import LAYOUT, Axes, piece_up, take_back
from swcaffe.engine.host.native import (
    add_rows,
    carray,
    compiled,
    copy_lanes,
    floats,
    words,
    zero_words,
)
from swcaffe.engine.host.plans import Scratch, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.kernels import COLS, ROWS, WIDTH, outer_tile

__all__ = ["scatter", "scatter_values"]

LINE_BYTES = 192 * 1024
"""Lines of a task, at least one channel; they stay in the second-level cache."""


@compiled
def _pack_outputs(t: Any, source: int, first: int, width: int, to: int) -> None:
    """Panel (outputs, COLS) of `width` positions, zeros behind them."""
    for p in range(t.outputs):
        row = floats(source + 4 * (p * t.positions + first), width)
        out = floats(to + 4 * p * COLS, COLS)
        for x in range(width):
            out[x] = row[x]
        for x in range(width, COLS):
            out[x] = 0


@compiled
def _spread(t: Any, tile: int, rows: int, pieces: Any, first: int, last: int, to: int) -> None:
    """Move a tile's pieces to their lines, zeros behind them."""
    row_bytes = 4 * t.out0 * t.out1 * t.spread
    for r in range(rows):
        source, target = tile + 4 * r * COLS, to + r * row_bytes
        for p in range(first, last):
            copy_lanes(source + 4 * pieces[2, p], target + 4 * pieces[0, p], pieces[3, p])


@compiled
def _add_lines(t: Any, lines: int, copy: int) -> None:
    """Add the lines of one channel's taps to its image copy.

    Taps t2, t2 + tap_step, … of a kernel line meet the same phase, each `tap_shift` words further.
    """
    line_bytes = 4 * t.spread
    tap_bytes = t.out0 * t.out1 * line_bytes
    pitch = t.tap_step * tap_bytes - 4 * t.tap_shift
    offsets = words(t.tap_offsets, t.taps)
    for first in range(0, t.taps, t.taps2):
        for t2 in range(min(t.tap_step, t.taps2)):
            count = (t.taps2 - t2 + t.tap_step - 1) // t.tap_step
            width = t.out2 + (count - 1) * t.tap_shift
            tap = first + t2
            for o0 in range(t.out0):
                for o1 in range(t.out1):
                    place = o0 * t.stride0 * t.row_pitch + o1 * t.stride1 * t.line_pitch
                    target = copy + 4 * (offsets[tap] + place)
                    source = lines + tap * tap_bytes + (o0 * t.out1 + o1) * line_bytes
                    for x in range(0, width, WIDTH):
                        add_rows(target + 4 * x, source + 4 * (t.gap + x), pitch, count)


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
    lines, panel, tile = scratch + t.lines_at, scratch + t.panels_at, scratch + t.tile_at
    pieces = words(scratch + t.pieces_at, 4 * t.positions).reshape(4, t.positions)
    row_bytes = 4 * t.out0 * t.out1 * t.spread
    zero_words(scratch, channels * t.pitch)
    zero_words(lines, tap_rows * row_bytes // 4)
    count = piece_up(t, 0, t.positions, 0, 0, t.out1 * t.spread, t.spread, pieces)
    diff_dst = t.dst + 4 * (n * t.groups + group) * t.outputs * t.positions
    packed = t.shared + 4 * (group * t.rows + c0 * t.taps) * t.depth
    piece = 0
    for first in range(0, t.positions, COLS):
        _pack_outputs(t, diff_dst, first, min(COLS, t.positions - first), panel)
        last = piece
        while last < count and pieces[1, last] == first // COLS:
            last += 1
        for i in range(0, tap_rows, t.row_step):
            rows = min(t.row_step, tap_rows - i)
            outer_tile(rows, t.depth, packed + 4 * i * t.depth, panel, tile, COLS, 0)
            _spread(t, tile, rows, pieces, piece, last, lines + i * row_bytes + 4 * t.gap)
        piece = last
    for c in range(channels):
        _add_lines(t, lines + c * t.taps * row_bytes, scratch + 4 * c * t.pitch)
    image = t.src + 4 * ((n * t.groups + group) * t.channels + c0) * t.in0 * t.in1 * t.in2
    take_back(t, scratch, channels, t.pitch // t.row_pitch, image)


def scatter_values(axes: Axes) -> tuple[dict[str, Any], int, Scratch]:
    """Words, number of tasks and scratch of `scatter`, packing of the weights included."""
    pitch = axes.pitch(axes.out_size[0])
    stride, dilation, taps2 = axes.stride[2], axes.dilation[2], axes.kernel[2]
    step = stride // math.gcd(stride, dilation)
    shift = step * dilation // stride
    gap = (taps2 - 1) // step * shift
    spread = 2 * gap + axes.out_size[2] + WIDTH
    channel_words = axes.taps * axes.out_size[0] * axes.out_size[1] * spread
    most = max(1, LINE_BYTES // (4 * channel_words))
    block = split_evenly(axes.channels, -(-axes.channels // most))
    tap_rows = axes.channels * axes.taps
    lines_at = -(-4 * (block * pitch + 2 * WIDTH) // 64) * 64
    panels_at = lines_at + -(-4 * (block * channel_words + WIDTH) // 64) * 64
    tile_at = panels_at + 4 * axes.outputs * COLS
    pieces_at = tile_at + 4 * (ROWS * COLS + WIDTH)
    values = {
        **axes.words(),
        **pack_words(tap_rows, block * axes.taps, axes.outputs, axes.outputs * tap_rows),
        "w_row": 1,
        "w_channel": tap_rows,
        "w_taps": 1,
        "taps2": taps2,
        "tap_step": step,
        "tap_shift": shift,
        "spread": spread,
        "gap": gap,
        "block": block,
        "pitch": pitch,
        "lines_at": lines_at,
        "panels_at": panels_at,
        "tile_at": tile_at,
        "pieces_at": pieces_at,
    }
    count = axes.n * axes.groups * -(-axes.channels // block)
    weights = axes.groups * tap_rows * axes.outputs
    return values, count, Scratch(4 * weights, pieces_at + 8 * 4 * axes.positions)
