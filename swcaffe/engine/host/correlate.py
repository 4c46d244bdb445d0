"""Convolution as one matrix product whose right side is packed straight from the images.

The columns are the output positions of the whole batch, cut into chunks: one task each (and for
each group). A task copies the images it meets (see images.py; without padding and strides the
images themselves serve), packs panels of COLS positions by
vector moves, and multiplies all blocks of weights with them. No im2col matrix is ever in memory.
(As measured on one core with 260 GFLOP/s in registers: 170 to 240; numpy's OpenBLAS on an im2col
matrix 30 to 90, the product alone 70 to 105.)
The gradient to the data is the same with the roles of the channels exchanged and taps reversed.
"""

from __future__ import annotations

import math
from typing import Any

from swcaffe.engine.host.images import LAYOUT, Axes, lay_out, piece_up
from swcaffe.engine.host.native import carray, compiled, floats, words
from swcaffe.engine.host.pieces import pack_pieces
from swcaffe.engine.host.plans import Job, Scratch, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.engine.host.vectors import copy_vector
from swcaffe.kernels import COLS, ROWS, WIDTH, outer_tile, pack_rows, transpose

__all__ = ["correlate", "correlate_values", "pack_job", "pack_weights", "pack_words"]

DEPTH = 400
"""Steps of k packed at once: a block of ROWS rows of weights fits the first-level cache."""
CHUNK_BYTES = 512 * 1024
"""Size of the im2col matrix that a task spares: its images then stay in the second-level cache."""
FEW = 256
"""Positions of a task below which outputs are shared out instead: each task reads its weights once,
and many tasks of few positions would read them often from a far cache."""
FEW_TASKS = 8
"""Tasks to aim at by sharing out outputs, as each share packs its panels again."""
LEAST_OUTPUTS = 64
"""Outputs that repay packing a panel."""
TASKS = 16
"""Fewest tasks to aim at, so that a late thread costs little."""


@task(LAYOUT)
def pack_weights(table: Any, index: int, worker: int) -> None:
    """Pack a block of row_step rows as (k, rows); a bias is step 0 of k."""
    t = carray(table, 1)[0]
    group, block = index // t.parts, index % t.parts
    per_span = (t.span + t.row_step - 1) // t.row_step
    span = block // per_span * t.span
    first = span + block % per_span * t.row_step
    rows = min(t.row_step, span + t.span - first, t.rows - first)
    if rows <= 0:
        return
    place = group * t.rows + first
    out = floats(t.shared + 4 * place * t.depth, rows * t.depth)
    source = floats(t.weights + 4 * group * t.w_group, t.w_group)
    at = 0
    if t.has_bias:
        bias = floats(t.bias + 4 * place, rows)
        for i in range(rows):
            out[i] = bias[i]
        at = rows
    channels = (t.depth - t.has_bias) // t.w_taps
    if t.w_channel == t.w_taps and not t.w_flip:
        lines = source[first * t.w_row :]
        pack_rows(lines, rows, channels * t.w_taps, t.w_row, 1, out[at:], t.rows - first)
        return
    turned = 0
    if t.w_flip and 1 < t.w_taps <= WIDTH:
        # a channel's last taps overrun its block, so all but the last one, and none near the end
        fits = (t.w_group - (first + WIDTH - 1) * t.w_row - WIDTH) // t.w_channel + 1
        turned = min(channels - 1, max(fits, 0))
        copy = t.private + worker * t.private_bytes
        for c in range(turned):
            _turn(t, source[first * t.w_row + c * t.w_channel :], rows, copy, out[at:])
            at += rows * t.w_taps
    for c in range(turned, channels):
        for tap in range(t.w_taps):
            k = t.w_taps - 1 - tap if t.w_flip else tap
            part = source[first * t.w_row + c * t.w_channel + k :]
            if t.w_row == 1:
                for i in range(rows):
                    out[at + i] = part[i]
            else:
                for i in range(rows):
                    out[at + i] = part[i * t.w_row]
            at += rows


@compiled
def _turn(t: Any, source: Any, rows: int, copy: int, out: Any) -> None:
    """Pack rows of taps as (taps from the last to the first, rows), some words more behind."""
    transpose(source.ctypes.data, t.w_row, copy, WIDTH)
    to = out.ctypes.data
    for tap in range(t.w_taps):
        copy_vector(copy + 4 * WIDTH * (t.w_taps - 1 - tap), to + 4 * rows * tap)


def pack_words(rows: int, span: int, depth: int, group: int) -> dict[str, int]:
    """Words of `pack_weights` for `rows` rows a group, blocked within spans of `span` rows."""
    row_step = split_evenly(span, -(-span // ROWS))
    parts = -(-rows // span) * -(-span // row_step)
    return {
        "row_step": row_step,
        "rows": rows,
        "span": span,
        "depth": depth,
        "w_group": group,
        "parts": parts,
    }


def pack_job(words: dict[str, Any]) -> Job:
    """The job that packs all weights."""
    return Job(pack_weights, words["groups"] * words["parts"])


@compiled
def _pack_panel(
    t: Any, rows: int, images: int, end: int, pieces: Any, first: int, last: int, to: int
) -> None:
    """Rows of a panel, one for each channel and tap, made of pieces first to last - 1.

    Nothing is read from the address `end` on; 0 says that there is always room.
    """
    offsets = words(t.tap_offsets, rows)
    sources, places = pieces[0, first:last], pieces[2, first:last]
    reach = images + 4 * (offsets[rows - 1] + sources[last - first - 1] + WIDTH)
    if end == 0 or reach <= end:
        pack_pieces(
            last - first, rows, images, t.tap_offsets, sources.ctypes.data, places.ctypes.data, to
        )
        return
    out = floats(to, rows * COLS)
    for r in range(rows):
        for p in range(first, last):
            length = pieces[3, p]
            part = floats(images + 4 * (offsets[r] + pieces[0, p]), length)
            for x in range(length):
                out[r * COLS + pieces[2, p] + x] = part[x]


@compiled
def _put_tile(t: Any, tile: int, rows: int, first: int, end: int, output: int, add: bool) -> None:
    """Move a tile whose columns meet more than one image, or fewer than COLS outputs."""
    values = floats(tile, ROWS * COLS)
    q = first
    while q < end:
        n, place = q // t.positions, q % t.positions
        length = min(t.positions - place, end - q)
        for i in range(rows):
            at = (n * t.groups * t.outputs + output + i) * t.positions + place
            out = floats(t.dst + 4 * at, length)
            part = values[i * COLS + q - first :]
            if add:
                for x in range(length):
                    out[x] += part[x]
            else:
                for x in range(length):
                    out[x] = part[x]
        q += length


@task(LAYOUT)
def correlate(table: Any, index: int, worker: int) -> None:
    """One chunk of output positions of one group, all its output channels or a share of them."""
    t = carray(table, 1)[0]
    group, share = index % t.groups, index // t.groups % t.shares
    chunk = index // t.groups // t.shares
    outputs = min((share + 1) * t.share, t.outputs)
    first = chunk * t.chunk
    end = min(first + t.chunk, t.n * t.positions)
    n0, n1 = first // t.positions, (end - 1) // t.positions
    plane = 4 * t.in0 * t.in1 * t.in2
    line = t.out1 * t.out2
    top = 0 if t.direct else first % t.positions // line
    src_end = t.src + plane * t.n * t.groups * t.channels if t.direct else 0
    scratch = t.private + worker * t.private_bytes
    panel, tile = scratch + t.panels_at, scratch + t.tile_at
    pieces = words(scratch + t.pieces_at, 4 * t.chunk).reshape(4, t.chunk)
    rows_in = t.pitch // t.row_pitch
    ones = floats(panel, COLS)
    done = 0
    for block in range(t.blocks):
        c0 = block * t.block
        channels = min(t.block, t.channels - c0)
        slot = t.groups * t.channels * t.pitch if t.direct else channels * t.pitch
        images = t.src + plane * ((n0 * t.groups + group) * t.channels + c0)
        if not t.direct:
            for n in range(n0, n1 + 1):
                image = images + plane * (n - n0) * t.groups * t.channels
                from_row = top * t.stride0 if n == n0 else 0
                lay_out(t, image, channels, from_row, rows_in, scratch + 4 * (n - n0) * slot)
            images = scratch
        bias = t.has_bias if block == 0 else 0
        depth = channels * t.taps + bias
        packed = panel + 4 * bias * COLS
        pitch0, pitch1 = t.stride0 * t.row_pitch, t.stride1 * t.line_pitch
        count = piece_up(t, first, end, slot, top, pitch0, pitch1, pieces)
        piece = 0
        for q in range(first, end, COLS):
            last = piece
            while last < count and pieces[1, last] == (q - first) // COLS:
                last += 1
            for x in range(bias * COLS):
                ones[x] = 1
            _pack_panel(t, depth - bias, images, src_end, pieces, piece, last, packed)
            piece = last
            n, place = q // t.positions, q % t.positions
            inside = q + COLS <= end and place + COLS <= t.positions
            for i in range(share * t.share, outputs, t.row_step):
                rows = min(t.row_step, outputs - i)
                weights = t.shared + 4 * ((group * t.outputs + i) * t.depth + done * rows)
                output = group * t.outputs + i
                if inside:
                    at = (n * t.groups * t.outputs + output) * t.positions + place
                    outer_tile(rows, depth, weights, panel, t.dst + 4 * at, t.positions, block)
                else:
                    outer_tile(rows, depth, weights, panel, tile, COLS, 0)
                    _put_tile(t, tile, rows, q, min(q + COLS, end), output, block > 0)
        done += depth


def _chunk(axes: Axes, depth: int) -> int:
    """Output positions of a task: whole panels, and whole images where that is the same."""
    total = axes.n * axes.positions
    most = min(CHUNK_BYTES // (4 * depth), max(split_evenly(total, TASKS), FEW))
    most = max(COLS, most // COLS * COLS)
    if most < axes.positions:
        total = axes.positions
    elif axes.positions % COLS == 0:
        return most // axes.positions * axes.positions
    parts = -(-total // most)
    return -(-total // parts // COLS) * COLS


def correlate_values(axes: Axes, has_bias: bool) -> tuple[dict[str, Any], int, Scratch]:
    """Words, number of tasks and scratch of `correlate`."""
    blocks = -(-axes.channels * axes.taps // DEPTH)
    block = split_evenly(axes.channels, min(blocks, axes.channels))
    blocks = -(-axes.channels // block)
    depth = block * axes.taps + has_bias
    chunk = _chunk(axes, depth)
    chunks = -(-axes.n * axes.positions // chunk) * axes.groups
    row_step = split_evenly(axes.outputs, -(-axes.outputs // ROWS))
    share = -(-split_evenly(axes.outputs, -(-FEW_TASKS // max(1, chunks))) // row_step) * row_step
    share = min(axes.outputs, max(share, LEAST_OUTPUTS // row_step * row_step))
    shares = -(-axes.outputs // share)
    line = axes.out_size[1] * axes.out_size[2]
    band = min(axes.out_size[0], (chunk - 1) // line + 2)
    images = min(axes.n, (chunk - 1) // axes.positions + 2)
    direct = axes.copies_nothing
    pitch = math.prod(axes.in_size) if direct else axes.pitch(band)
    copies = 0 if direct else 4 * (images * block * pitch + WIDTH)
    panel = 4 * (depth * COLS + WIDTH)
    panels_at = -(-copies // 64) * 64
    tile_at = panels_at + -(-panel // 64) * 64
    pieces_at = tile_at + 4 * ROWS * COLS
    values = {
        **axes.words(),
        "chunk": chunk,
        "share": share,
        "shares": shares,
        "block": block,
        "blocks": blocks,
        "pitch": pitch,
        "direct": int(direct),
        "tap_offsets": axes.channel_offsets(block, pitch),
        "has_bias": int(has_bias),
        "panels_at": panels_at,
        "tile_at": tile_at,
        "pieces_at": pieces_at,
    }
    count = chunks * shares
    weights = axes.groups * axes.outputs * (axes.channels * axes.taps + has_bias)
    return values, count, Scratch(4 * weights, max(pieces_at + 8 * 4 * chunk, 4 * WIDTH * WIDTH))
