"""Padded copies of images in which every kernel tap meets consecutive outputs in consecutive words.

An image has up to three spatial axes (fewer are filled up with ones before the last). Its copy
holds some channels and a band of rows of the first axis, with zeros where the padding is, each
line of the last axis split by stride phase:

    (channel, axis 0, axis 1, x % stride2, x // stride2)

so output (o0, o1, o2) meets tap (t0, t1, t2) at `output offset + tap offset`, and a step of o2 is
a step of one word for every stride. Copies are made by whole vectors: each may overrun its end by
less than WIDTH words, which the next one overwrites; after the last there is room for it. Rows and
phases that a kernel of one tap steps over are left as they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swcaffe.arrays import I64
from swcaffe.engine.host.native import compiled, floats
from swcaffe.engine.host.plans import fields
from swcaffe.engine.host.vectors import copy_even, copy_words, join_pairs, zero_words
from swcaffe.kernels import COLS, WIDTH
from swcaffe.operators.convolution import ConvGeometry

__all__ = ["LAYOUT", "Axes", "join_line", "lay_out", "piece_up"]

LAYOUT = fields(
    "src weights bias dst diff_weights diff_bias",
    "n groups channels outputs taps positions has_bias "
    "in0 in1 in2 out0 out1 out2 stride0 stride1 stride2 pad0 pad1 pad2 "
    "lines columns phases pitch row_pitch line_pitch tap_offsets "
    "chunk share shares block blocks depth span rows row_step parts images accumulate kind direct "
    "piece_words "
    "spread gap taps0 taps2 tap_step tap_shift dilation0 dilation1 dilation2 lines_at "
    "w_group w_row w_channel w_flip w_taps "
    "panels_at outputs_at tile_at pieces_at",
)
"""Words of all convolution tasks; each plan sets those that its tasks read."""

LINE = 256
"""Longest line of a pointwise convolution, so that a task need not copy whole planes."""


class Axes:
    """A convolution with three spatial axes, and the sizes of its image copies."""

    def __init__(self, g: ConvGeometry) -> None:
        """Fill up with axes of one; the pixels of a pointwise convolution get handy lines."""
        if {*g.kernel, *g.stride} == {1} and not any(g.pad):
            pixels = math.prod(g.in_size)
            line = max(d for d in range(1, min(pixels, LINE) + 1) if pixels % d == 0)
            line = line if line >= WIDTH else pixels
            self.in_size = self.out_size = (pixels // line, 1, line)
            self.kernel = self.stride = self.dilation = (1, 1, 1)
            self.pad = (0, 0, 0)
        else:
            self.in_size, self.out_size = self._three(g.in_size), self._three(g.out_size)
            self.kernel, self.stride = self._three(g.kernel), self._three(g.stride)
            self.dilation, self.pad = self._three(g.dilation), self._three(g.pad, 0)
        self.n, self.groups = g.n, g.groups
        self.channels, self.outputs = g.ic // g.groups, g.oc // g.groups
        self.taps, self.positions = math.prod(self.kernel), math.prod(self.out_size)
        self.lines = self.span(1, self.out_size[1])
        needed = self.span(2, self.out_size[2])
        self.phases = self.stride[2]
        self.columns = -(-needed // self.phases)
        if self.phases == 1 and self.pad[1:] == (0, 0):
            self.lines = max(self.lines, self.in_size[1])
            self.columns = max(needed, self.in_size[2])

    @staticmethod
    def _three(values: tuple[int, ...], fill: int = 1) -> tuple[int, int, int]:
        """(a) -> (1, 1, a); (a, b) -> (a, 1, b); the axis that is cut into bands comes first."""
        first = values[:1] if len(values) > 1 else (fill,)
        middle = values[1:2] if len(values) > 2 else (fill,)
        return first[0], middle[0], values[-1]

    def span(self, axis: int, outputs: int) -> int:
        """Padded input positions that `outputs` neighbouring outputs meet."""
        extent = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        return (outputs - 1) * self.stride[axis] + extent

    @property
    def line_pitch(self) -> int:
        """Words of one line."""
        return self.phases * self.columns

    @property
    def row_pitch(self) -> int:
        """Words of one row of the first axis."""
        return self.lines * self.line_pitch

    def pitch(self, outputs: int) -> int:
        """Words of a channel whose copy serves `outputs` rows of outputs."""
        return self.span(0, outputs) * self.row_pitch

    def tap_offsets(self) -> I64:
        """Word offset of each tap, in the order of the weights."""
        t0, t1, t2 = np.indices(self.kernel).reshape(3, -1)
        x = t2 * self.dilation[2]
        line = (x % self.phases) * self.columns + x // self.phases
        rows = t0 * self.dilation[0] * self.row_pitch + t1 * self.dilation[1] * self.line_pitch
        return np.ascontiguousarray(rows + line, np.int64)

    @property
    def copies_nothing(self) -> bool:
        """Whether an image's copy would be the image: its lines are whole and not split."""
        whole = (self.lines, self.columns) == self.in_size[1:] and self.pad == (0, 0, 0)
        return whole and self.phases == 1 and self.out_size[2] >= WIDTH

    def channel_offsets(self, channels: int, pitch: int, spare: int = 0) -> I64:
        """Word offset of each tap of each of some channels; the last `spare` times more."""
        offsets = np.arange(channels)[:, None] * pitch + self.tap_offsets()
        return np.pad(offsets.reshape(-1), (0, spare), "edge")

    def words(self) -> dict[str, Any]:
        """The geometry's words of the table."""
        words: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                *("n", "groups", "channels", "outputs", "taps", "positions"),
                *("lines", "columns", "phases", "row_pitch", "line_pitch"),
            )
        }
        for axis in range(3):
            words[f"in{axis}"], words[f"out{axis}"] = self.in_size[axis], self.out_size[axis]
            words[f"stride{axis}"], words[f"pad{axis}"] = self.stride[axis], self.pad[axis]
            words[f"dilation{axis}"] = self.dilation[axis]
        words |= {"taps0": self.kernel[0], "taps2": self.kernel[2]}
        return {**words, "tap_offsets": self.tap_offsets()}


@compiled
def lay_out(t: Any, image: int, channels: int, top: int, rows: int, copy: int) -> None:
    """Copy `channels` planes at address `image` to address `copy`, padded rows from `top` on."""
    plane = t.in0 * t.in1 * t.in2
    whole = t.phases == 1 and t.pad1 == 0 and t.pad2 == 0
    whole = whole and t.lines == t.in1 and t.line_pitch == t.in2
    end = t.src + 4 * t.n * t.groups * t.channels * plane
    for c in range(channels):
        for z in range(0, rows, t.stride0 if t.taps0 == 1 else 1):
            out = copy + 4 * (c * rows + z) * t.row_pitch
            z_in = top + z - t.pad0
            if z_in < 0 or z_in >= t.in0:
                zero_words(out, t.row_pitch)
                continue
            start = image + 4 * (c * plane + z_in * t.in1 * t.in2)
            if whole:
                copy_words(start, out, t.row_pitch, (end - start) // 4)
                continue
            for y in range(t.lines):
                line, y_in = out + 4 * y * t.line_pitch, y - t.pad1
                if y_in < 0 or y_in >= t.in1:
                    zero_words(line, t.line_pitch)
                else:
                    _split_line(t, start + 4 * y_in * t.in2, line, end)


@compiled
def _split_line(t: Any, line_in: int, line: int, end: int) -> None:
    """Pad one line and split it by phase."""
    for phase in range(1 if t.taps2 == 1 else t.phases):
        skip = phase - t.pad2
        first = min(t.columns, max(0, -(skip // t.phases)))
        last = max(first, min(t.columns, (t.in2 - 1 - skip) // t.phases + 1))
        base = line + 4 * phase * t.columns
        zero_words(base, first)
        if t.phases == 1:
            start = line_in + 4 * (first + skip)
            copy_words(start, base + 4 * first, last - first, (end - start) // 4)
        else:
            source, out = floats(line_in, t.in2), floats(base, t.columns)
            x = first
            if t.phases == 2:
                while x < last and line_in + 4 * (2 * x + skip + 2 * WIDTH) <= end:
                    copy_even(line_in + 4 * (2 * x + skip), base + 4 * x)
                    x += WIDTH
            while x < last:
                out[x] = source[x * t.phases + skip]
                x += 1
        zero_words(base + 4 * last, t.columns - last)


@compiled
def join_line(t: Any, line: int, phase_pitch: int, line_out: int, room: int, spare: int) -> None:
    """Undo the splitting and padding of one line; no word from number `room` on is written.

    spare  address of 2 * phase_pitch words, for two phases
    """
    if t.phases == 2:
        for x in range(0, t.columns, WIDTH):
            join_pairs(line + 4 * x, line + 4 * (phase_pitch + x), spare + 8 * x)
        copy_words(spare + 4 * t.pad2, line_out, t.in2, room)
        return
    for phase in range(t.phases):
        skip = phase - t.pad2
        first = max(0, -(skip // t.phases))
        count = max(0, (t.in2 - 1 - skip) // t.phases + 1 - first)
        start = line + 4 * (phase * phase_pitch + first)
        if t.phases == 1:
            copy_words(start, line_out, count, room)
        else:
            values, out = floats(start, count), floats(line_out, t.in2)
            for x in range(count):
                out[(first + x) * t.phases + skip] = values[x]


@compiled
def piece_up(
    t: Any, first: int, end: int, slot: int, top: int, pitch0: int, pitch1: int, pieces: Any
) -> int:
    """Cut outputs [first, end), counted over the batch, into runs of at most WIDTH words.

    pieces (4, …): offset in the image copies, panel and place in it, length; returns their number.
    Copies are `slot` words apart, the first one's begins with row `top` of outputs, and a step of
    an output along axis 0 or 1 is `pitch0` or `pitch1` words. No piece crosses a panel's edge.
    """
    count, q, n0 = 0, first, first // t.positions
    while q < end:
        n, place = q // t.positions, q % t.positions
        o0, rest = place // (t.out1 * t.out2), place % (t.out1 * t.out2)
        o1, o2 = rest // t.out2, rest % t.out2
        if n == n0:
            o0 -= top
        column = (q - first) % COLS
        length = min(WIDTH, t.out2 - o2, end - q, COLS - column)
        pieces[0, count] = (n - n0) * slot + o0 * pitch0 + o1 * pitch1 + o2
        pieces[1, count] = (q - first) // COLS
        pieces[2, count] = column
        pieces[3, count] = length
        count += 1
        q += length
    return count
