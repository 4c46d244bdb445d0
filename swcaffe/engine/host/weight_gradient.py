"""Gradients to weights and bias: dot products along the output positions.

One task owns some input channels (all their taps) and a range of images. It walks the images in
bands, lays the outputs of each channel and the inputs met by each tap out as rows along the
positions, and multiplies rows with rows (`dot_tile`). Ranges of images are summed in order by a
second job, so that the result does not depend on who computed what.
"""

from __future__ import annotations

from typing import Any

from swcaffe.engine.host.images import LAYOUT, Axes, lay_out
from swcaffe.engine.host.native import carray, compiled, copy_vector, floats, words
from swcaffe.engine.host.plans import Job, Scratch, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.kernels import DOT_COLS, DOT_ROWS, WIDTH, dot_tile

__all__ = ["sum_parts", "weight_gradient", "weight_gradient_values"]

LENGTH = 2048
"""Positions multiplied at once: rows for one tile then stay in the first-level cache."""
TAP_COLS = 25
"""Least columns (channels x taps) of a task, which repay its copy of the outputs."""
TASKS = 16
"""Fewest tasks to aim at, so that a late thread costs little."""
SUM_PART = 2048
"""Elements of a task that adds up."""


@compiled
def _outputs(
    t: Any, group: int, n: int, images: int, row0: int, rows: int, to: int, sums: Any
) -> None:
    """Rows (output channel, position) of a band of `images` images; their sums for the bias."""
    line = t.out1 * t.out2
    length = images * rows * line
    padded = max(length, WIDTH)
    for o in range(t.outputs):
        out = floats(to + 4 * o * padded, padded)
        for b in range(images):
            at = ((n + b) * t.groups + group) * t.outputs + o
            source = floats(t.dst + 4 * (at * t.positions + row0 * line), rows * line)
            part = out[b * rows * line :]
            for x in range(rows * line):
                part[x] = source[x]
        for x in range(length, padded):
            out[x] = 0
        total = floats(to + 4 * o * padded, length)
        if len(sums) > 0:
            value = sums[o]
            for x in range(length):
                value += total[x]
            sums[o] = value


@compiled
def _tap_row(t: Any, images: int, slot: int, rows: int, source: int, to: int) -> None:
    """The inputs one tap meets in a band, in the order of the positions."""
    for b in range(images):
        for o0 in range(rows):
            for o1 in range(t.out1):
                at = o0 * t.stride0 * t.row_pitch + o1 * t.stride1 * t.line_pitch
                line = source + 4 * (b * slot + at)
                for x in range(0, t.out2, WIDTH):
                    copy_vector(line + 4 * x, to + 4 * x)
                to += 4 * t.out2


@task(LAYOUT, "reassoc")
def weight_gradient(table: Any, index: int, worker: int) -> None:
    """Partial gradients of some input channels from a range of images."""
    t = carray(table, 1)[0]
    channel_blocks = (t.channels + t.block - 1) // t.block
    c0 = index % channel_blocks * t.block
    group = index // channel_blocks % t.groups
    part = index // channel_blocks // t.groups
    channels = min(t.block, t.channels - c0)
    cols = channels * t.taps
    scratch = t.private + worker * t.private_bytes
    outputs, taps, tile = scratch + t.panels_at, scratch + t.pieces_at, scratch + t.tile_at
    values = floats(tile, DOT_ROWS * DOT_COLS)
    offsets = words(t.tap_offsets, t.taps)
    window = t.channels * t.taps
    size = t.groups * t.outputs * (window + t.has_bias)
    mine = t.shared + 4 * part * size
    result = floats(mine + 4 * group * t.outputs * window, t.outputs * window)
    bias_at = mine + 4 * t.groups * t.outputs * window
    bias_count = t.outputs if t.has_bias and c0 == 0 else 0
    sums = floats(bias_at + 4 * group * t.outputs, bias_count)
    for o in range(t.outputs):
        row = result[o * window + c0 * t.taps :]
        for x in range(cols):
            row[x] = 0
    for o in range(bias_count):
        sums[o] = 0
    slot = channels * t.pitch
    plane = 4 * t.in0 * t.in1 * t.in2
    last = min((part + 1) * t.span, t.n)
    for n in range(part * t.span, last, t.chunk):
        images = min(t.chunk, last - n)
        for row0 in range(0, t.out0, t.rows):
            rows = min(t.rows, t.out0 - row0)
            length = images * rows * t.out1 * t.out2
            padded = max(length, WIDTH)
            for b in range(images):
                image = t.src + plane * (((n + b) * t.groups + group) * t.channels + c0)
                copy = scratch + 4 * b * slot
                lay_out(t, image, channels, row0 * t.stride0, t.pitch // t.row_pitch, copy)
            _outputs(t, group, n, images, row0, rows, outputs, sums)
            for j in range(0, cols, DOT_COLS):
                width = min(DOT_COLS, cols - j)
                for x in range(width):
                    c, k = (j + x) // t.taps, (j + x) % t.taps
                    source = scratch + 4 * (c * t.pitch + offsets[k])
                    _tap_row(t, images, slot, rows, source, taps + 4 * x * padded)
                    if length < padded:
                        tail = floats(taps + 4 * (x * padded + length), padded - length)
                        for y in range(padded - length):
                            tail[y] = 0
                for i in range(0, t.outputs, DOT_ROWS):
                    height = min(DOT_ROWS, t.outputs - i)
                    left = outputs + 4 * i * padded
                    dot_tile(height, width, padded, left, padded, taps, padded, tile)
                    for r in range(height):
                        to = result[(i + r) * window + c0 * t.taps + j :]
                        for x in range(width):
                            to[x] += values[r * DOT_COLS + x]


@task(LAYOUT)
def sum_parts(table: Any, index: int, worker: int) -> None:
    """Add the parts of a range of elements in order, to what is there if `w_flip` says so."""
    t = carray(table, 1)[0]
    weights = t.groups * t.outputs * t.channels * t.taps
    size = weights + t.groups * t.outputs * t.has_bias
    first = index * SUM_PART
    end = min(first + SUM_PART, size)
    for target, low, high in (
        (t.diff_weights + 4 * first, first, min(end, weights)),
        (t.diff_bias + 4 * (max(first, weights) - weights), max(first, weights), end),
    ):
        if low >= high:
            continue
        out = floats(target, high - low)
        start = 0
        if not t.w_flip:
            part = floats(t.shared + 4 * low, high - low)
            for x in range(high - low):
                out[x] = part[x]
            start = 1
        for p in range(start, t.parts):
            part = floats(t.shared + 4 * (p * size + low), high - low)
            for x in range(high - low):
                out[x] += part[x]


def weight_gradient_values(
    axes: Axes, has_bias: bool, accumulate: bool
) -> tuple[dict[str, Any], list[Job], Scratch]:
    """Words, jobs and scratch of both jobs.

    span is the number of images of a part, chunk of a band, rows the output rows of a band.
    """
    step = next(c for c in range(1, DOT_COLS + 1) if c * axes.taps % DOT_COLS == 0)
    block = min(axes.channels, -(-TAP_COLS // (axes.taps * step)) * step)
    owners = -(-axes.channels // block) * axes.groups
    span = split_evenly(axes.n, -(-TASKS // owners))
    parts = -(-axes.n // span)
    line = axes.out_size[1] * axes.out_size[2]
    rows = split_evenly(axes.out_size[0], -(-axes.positions // (2 * LENGTH)))
    chunk = max(1, min(span, LENGTH // (rows * line))) if rows == axes.out_size[0] else 1
    pitch = axes.pitch(rows)
    length = max(WIDTH, chunk * rows * line)
    panels_at = -(-4 * (chunk * block * pitch + WIDTH) // 64) * 64
    pieces_at = panels_at + 4 * axes.outputs * length
    tile_at = pieces_at + 4 * (DOT_COLS * length + WIDTH)
    values = {
        **axes.words(),
        "has_bias": int(has_bias),
        "block": block,
        "span": span,
        "parts": parts,
        "chunk": chunk,
        "rows": rows,
        "pitch": pitch,
        "w_flip": int(accumulate),
        "panels_at": panels_at,
        "pieces_at": pieces_at,
        "tile_at": tile_at,
    }
    size = axes.groups * axes.outputs * (axes.channels * axes.taps + has_bias)
    jobs = [Job(weight_gradient, owners * parts), Job(sum_parts, -(-size // SUM_PART))]
    scratch = Scratch(4 * parts * size, tile_at + 4 * DOT_ROWS * DOT_COLS)
    return values, jobs, scratch
