"""Gradient to the data of a strided convolution: products scattered into image copies.

One task computes some input channels of one image: for each panel of output positions, a tile of
`weights.T @ diff_dst` is made in registers and added at once to a copy of the image (see
images.py), where the outputs that one tap meets lie in a row. No column matrix is in memory.
"""

from __future__ import annotations

from typing import Any

from swcaffe.engine.host.correlate import DEPTH, pack_words
from swcaffe.engine.host.images import LAYOUT, Axes, piece_up, take_back
from swcaffe.engine.host.native import add_vector, carray, compiled, floats, words
from swcaffe.engine.host.plans import Scratch, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.kernels import COLS, ROWS, WIDTH, outer_tile

__all__ = ["scatter", "scatter_values"]

TAP_ROWS = 256
"""Rows of the product (channels x taps) of a task, at least one channel."""
COPY_BYTES = 256 * 1024
"""Image copies of a task, at least one channel."""


@compiled
def _pack_outputs(t: Any, source: int, k: int, first: int, width: int, to: int) -> None:
    """Panel (k, COLS) of `width` output positions, zeros behind them."""
    for p in range(k):
        row = floats(source + 4 * (p * t.positions + first), width)
        out = floats(to + 4 * p * COLS, COLS)
        for x in range(width):
            out[x] = row[x]
        for x in range(width, COLS):
            out[x] = 0


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
    panel, tile = scratch + t.panels_at, scratch + t.tile_at
    pieces = words(scratch + t.pieces_at, 3 * COLS).reshape(3, COLS)
    offsets = words(t.tap_offsets, t.taps)
    copies = floats(scratch, channels * t.pitch)
    for x in range(channels * t.pitch):
        copies[x] = 0
    diff_dst = t.dst + 4 * (n * t.groups + group) * t.outputs * t.positions
    packed = t.shared + 4 * (group * t.rows + c0 * t.taps) * t.depth
    for first in range(0, t.positions, COLS):
        end = min(first + COLS, t.positions)
        count = piece_up(t, first, end, 0, 0, 0, pieces)
        for k0 in range(0, t.outputs, t.panel_depth):
            depth = min(t.panel_depth, t.outputs - k0)
            _pack_outputs(t, diff_dst + 4 * k0 * t.positions, depth, first, end - first, panel)
            for i in range(0, tap_rows, ROWS):
                rows = min(ROWS, tap_rows - i)
                weights = packed + 4 * (i * t.depth + k0 * rows)
                outer_tile(rows, depth, weights, panel, tile, COLS, 0)
                for r in range(rows):
                    c, k = (i + r) // t.taps, (i + r) % t.taps
                    to = scratch + 4 * (c * t.pitch + offsets[k])
                    row = tile + 4 * r * COLS
                    for p in range(count):
                        add_vector(row + 4 * pieces[1, p], to + 4 * pieces[0, p], pieces[2, p])
    image = t.src + 4 * ((n * t.groups + group) * t.channels + c0) * t.in0 * t.in1 * t.in2
    take_back(t, scratch, channels, t.pitch // t.row_pitch, image)


def scatter_values(axes: Axes) -> tuple[dict[str, Any], int, Scratch]:
    """Words, number of tasks and scratch of `scatter`, packing of the weights included."""
    pitch = axes.pitch(axes.out_size[0])
    most = max(1, min(TAP_ROWS // axes.taps, COPY_BYTES // (4 * pitch)))
    block = split_evenly(axes.channels, -(-axes.channels // most))
    depth = min(DEPTH, axes.outputs)
    tap_rows = axes.channels * axes.taps
    panels_at = -(-4 * (block * pitch + WIDTH) // 64) * 64
    tile_at = panels_at + 4 * depth * COLS
    pieces_at = tile_at + 4 * (ROWS * COLS + WIDTH)
    values = {
        **axes.words(),
        **pack_words(tap_rows, block * axes.taps, axes.outputs, axes.outputs * tap_rows),
        "w_row": 1,
        "w_channel": tap_rows,
        "w_taps": 1,
        "block": block,
        "panel_depth": depth,
        "pitch": pitch,
        "panels_at": panels_at,
        "tile_at": tile_at,
        "pieces_at": pieces_at,
    }
    count = axes.n * axes.groups * -(-axes.channels // block)
    weights = axes.groups * tap_rows * axes.outputs
    return values, count, Scratch(4 * weights, pieces_at + 8 * 3 * COLS)
