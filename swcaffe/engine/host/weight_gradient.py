"""Gradients to weights and bias: dot products along the output positions.

One task owns some input channels (all their taps) and a range of images. It walks the images in
bands, copies the outputs of a band to rows, one for each channel, and multiplies them with the
inputs that each tap meets, straight from the image copies (`dot_lines`). Ranges of images are
summed in order by a second job, so that the result does not depend on who computed what.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.engine.host.images import LAYOUT, Axes, lay_out
from swcaffe.engine.host.native import carray, compiled, floats, regrouped, words
from swcaffe.engine.host.pieces import dot_lines
from swcaffe.engine.host.plans import Job, Scratch, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.engine.host.vectors import copy_lanes, copy_words, zero_words
from swcaffe.kernels import DOT_COLS, DOT_FLOATS, DOT_ROWS, HALF, WIDTH, dot_tile

__all__ = ["LONG", "sum_parts", "weight_gradient", "weight_gradient_values"]

TILE_WORDS = 10240
"""Words that the products of one tile read: they then stay in the first-level cache."""
TAP_COLS = 300
"""Least columns (channels x taps) of a task, which repay its copy of the outputs …"""
COPY_BYTES = 256 * 1024
"""… as long as its copy of the inputs stays in the second-level cache."""
LONG = 512
"""Positions of an image that repay dot products without copies, for kernels of one tap."""
TASKS = 16
"""Fewest tasks to aim at, so that a late thread costs little."""
SUM_PART = 2048
"""Elements of a task that adds up."""


@regrouped
def _sum(values: Any) -> Any:
    total = np.float32(0)
    for x in range(len(values)):
        total += values[x]
    return total


@compiled
def _outputs(
    t: Any, group: int, n: int, images: int, row0: int, rows: int, to: int, sums: Any
) -> None:
    """Lines of a band of outputs, filled up with zeros to `spread`; their sums for the bias."""
    lines = rows * t.out1
    room = (images * lines * t.spread + HALF) // WIDTH * WIDTH
    end = t.dst + 4 * t.n * t.groups * t.outputs * t.positions
    for o in range(t.outputs):
        out = to + 4 * o * room
        for b in range(images):
            at = ((n + b) * t.groups + group) * t.outputs + o
            source = t.dst + 4 * (at * t.positions + row0 * t.out1 * t.out2)
            if t.spread == t.out2:
                copy_words(source, out, lines * t.out2, (end - source) // 4)
                out += 4 * lines * t.spread
            else:
                for _ in range(lines):
                    if t.out2 < WIDTH and source + 4 * WIDTH <= end:
                        copy_lanes(source, out, t.out2)
                    else:
                        copy_words(source, out, t.out2, (end - source) // 4)
                        zero_words(out + 4 * t.out2, t.spread - t.out2)
                    source += 4 * t.out2
                    out += 4 * t.spread
        zero_words(out, (to + 4 * (o + 1) * room - out) // 4)
        if len(sums) > 0:
            sums[o] += _sum(floats(to + 4 * o * room, room))


@compiled
def _line_pieces(t: Any, images: int, slot: int, rows: int, pieces: Any, masks: Any) -> int:
    """Offsets of the inputs that the filled lines of a band meet, and masks without the filling.

    What a line's filling meets may be anything: NaN times its zero would not be zero.
    """
    halves = t.kind == 2
    size = HALF if halves else WIDTH
    count = 0
    for b in range(images):
        for o0 in range(rows):
            for o1 in range(t.out1):
                at = b * slot + o0 * t.stride0 * t.row_pitch + o1 * t.stride1 * t.line_pitch
                for x in range(0, t.spread, size):
                    pieces[count] = at + x
                    mask = (1 << min(size, t.out2 - x)) - 1
                    if not halves:
                        masks[count] = mask
                    elif count % 2 == 0:
                        masks[count // 2] = mask
                    else:
                        masks[count // 2] |= mask << HALF
                    count += 1
    if halves:
        pieces[count] = 0
        return (count + 1) // 2
    return count


@task(LAYOUT)
def weight_gradient(table: Any, index: int, worker: int) -> None:
    """Partial gradients of some input channels from a range of images."""
    t = carray(table, 1)[0]
    channel_blocks = (t.channels + t.block - 1) // t.block
    c0 = index % channel_blocks * t.block
    group = index // channel_blocks % t.groups
    part = index // channel_blocks // t.groups
    channels = min(t.block, t.channels - c0)
    scratch = t.private + worker * t.private_bytes
    outputs = scratch + t.outputs_at
    window = t.channels * t.taps
    size = t.groups * t.outputs * (window + t.has_bias)
    mine = t.shared + 4 * part * size
    result = floats(mine + 4 * group * t.outputs * window, t.outputs * window)[c0 * t.taps :]
    bias_count = t.outputs if t.has_bias and c0 == 0 else 0
    sums = floats(mine + 4 * t.groups * t.outputs * window + 4 * group * t.outputs, bias_count)
    for o in range(t.outputs):
        for x in range(channels * t.taps):
            result[o * window + x] = 0
    for o in range(bias_count):
        sums[o] = 0
    first, last = part * t.images, min((part + 1) * t.images, t.n)
    if t.direct:
        _direct_products(t, group, c0, channels, first, last, scratch, result)
        for n in range(first, last if bias_count else first):
            for o in range(t.outputs):
                at = (n * t.groups + group) * t.outputs + o
                sums[o] += _sum(floats(t.dst + 4 * at * t.positions, t.positions))
        return
    slot = channels * t.pitch
    plane = 4 * t.in0 * t.in1 * t.in2
    for n in range(first, last, t.chunk):
        images = min(t.chunk, last - n)
        for row0 in range(0, t.out0, t.rows):
            rows = min(t.rows, t.out0 - row0)
            for b in range(images):
                image = t.src + plane * (((n + b) * t.groups + group) * t.channels + c0)
                copy = scratch + 4 * b * slot
                lay_out(t, image, channels, row0 * t.stride0, t.pitch // t.row_pitch, copy)
            _outputs(t, group, n, images, row0, rows, outputs, sums)
            _products(t, scratch, images, slot, rows, channels * t.taps, result)


@compiled
def _add_tile(values: Any, result: Any, pitch: int, height: int, width: int) -> None:
    for r in range(height):
        for x in range(width):
            result[r * pitch + x] += values[r * DOT_COLS + x]


@compiled
def _direct_products(
    t: Any, group: int, c0: int, channels: int, first: int, last: int, tile: int, result: Any
) -> None:
    """Add the products of some images where one tap meets all pixels: no copies."""
    values, plane = floats(tile, DOT_FLOATS), 4 * t.positions
    stretches = max(1, t.positions // t.rows)
    for n in range(first, last):
        image = t.src + plane * ((n * t.groups + group) * t.channels + c0)
        outputs = t.dst + plane * (n * t.groups + group) * t.outputs
        for stretch in range(stretches):
            at = stretch * t.rows
            length = t.positions - at if stretch == stretches - 1 else t.rows
            for i in range(0, t.outputs, DOT_ROWS):
                height, left = min(DOT_ROWS, t.outputs - i), outputs + i * plane + 4 * at
                for j in range(0, channels, DOT_COLS):
                    width, right = min(DOT_COLS, channels - j), image + j * plane + 4 * at
                    dot_tile(height, width, length, left, t.positions, right, t.positions, tile)
                    _add_tile(values, result[i * t.channels + j :], t.channels, height, width)


@compiled
def _products(
    t: Any, scratch: int, images: int, slot: int, rows: int, cols: int, result: Any
) -> None:
    """Add the products of a band of outputs with the inputs of every tap."""
    outputs, tile = scratch + t.outputs_at, scratch + t.tile_at
    places, marks = scratch + t.pieces_at, scratch + t.pieces_at + 8 * t.piece_words
    pieces, masks = words(places, t.piece_words), words(marks, t.piece_words)
    steps = _line_pieces(t, images, slot, rows, pieces, masks)
    room = (images * rows * t.out1 * t.spread + HALF) // WIDTH * WIDTH
    values = floats(tile, DOT_FLOATS)
    window = t.channels * t.taps
    for i in range(0, t.outputs, DOT_ROWS):
        height = min(DOT_ROWS, t.outputs - i)
        left = outputs + 4 * i * room
        for j in range(0, cols, DOT_COLS):
            width = min(DOT_COLS, cols - j)
            starts = t.tap_offsets + 8 * j
            dot_lines(height, steps, t.kind, left, room, scratch, starts, places, marks, tile)
            _add_tile(values, result[i * window + j :], window, height, width)


@task(LAYOUT)
def sum_parts(table: Any, index: int, worker: int) -> None:
    """Add the parts of a range of elements in order, to what is there if `accumulate` says so."""
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
        if not t.accumulate:
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

    images is the number of images of a part, chunk of a band, rows the output rows of a band (the
    positions of a stretch for direct products);
    spread is the length of an output line filled up to whole pieces.
    """
    spread = -(-axes.out_size[2] // HALF) * HALF
    line = axes.out_size[1] * spread
    length = TILE_WORDS // (DOT_ROWS + min(DOT_COLS, axes.stride[0] * axes.stride[2]))
    direct = axes.in_size == axes.out_size and axes.taps == 1 and axes.positions >= LONG
    rows = split_evenly(axes.out_size[0], -(-axes.out_size[0] * line // length))
    chunk = max(1, min(axes.n, length // (rows * line))) if rows == axes.out_size[0] else 1
    pitch = axes.pitch(rows)
    step = next(c for c in range(1, DOT_COLS + 1) if c * axes.taps % DOT_COLS == 0)
    block = min(-(-TAP_COLS // axes.taps), COPY_BYTES // (4 * chunk * pitch))
    block = min(axes.channels, max(1, block // step) * step)
    owners = -(-axes.channels // block) * axes.groups
    images = split_evenly(axes.n, -(-TASKS // owners))
    parts = -(-axes.n // images)
    chunk = min(chunk, images)
    room = (chunk * rows * line + HALF) // WIDTH * WIDTH
    outputs_at = -(-4 * (chunk * block * pitch + spread + 3 * WIDTH) // 64) * 64
    pieces_at = outputs_at + 4 * (axes.outputs * room + WIDTH)
    piece_words = -(-(room // HALF + 1) // 8) * 8
    tile_at = pieces_at + 16 * piece_words
    filled = spread > axes.out_size[2]
    values = {
        **axes.words(),
        "has_bias": int(has_bias),
        "block": block,
        "images": images,
        "parts": parts,
        "chunk": chunk,
        "rows": split_evenly(axes.positions, axes.positions // length) if direct else rows,
        "direct": int(direct),
        "pitch": pitch,
        "spread": spread,
        "kind": 2 if spread % WIDTH else int(filled),
        "accumulate": int(accumulate),
        "piece_words": piece_words,
        "tap_offsets": axes.channel_offsets(block, pitch, DOT_COLS),
        "outputs_at": outputs_at,
        "pieces_at": pieces_at,
        "tile_at": tile_at,
    }
    size = axes.groups * axes.outputs * (axes.channels * axes.taps + has_bias)
    jobs = [Job(weight_gradient, owners * parts), Job(sum_parts, -(-size // SUM_PART))]
    scratch = Scratch(4 * parts * size, tile_at + 4 * DOT_FLOATS)
    return values, jobs, scratch
