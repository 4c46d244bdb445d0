"""Image strips: which rows of an image belong to which rows of output, and what they share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from swcaffe.ir.intrinsics.im2col import Pair, Windows
from swcaffe.operators.convolution import ConvGeometry

__all__ = ["Planes", "Strip", "runs", "strips_for_images", "strips_for_outputs"]


@dataclass(frozen=True, slots=True)
class Planes:
    """A convolution of one or two spatial axes, as rows and columns.

    reverse  taps count from the last: the gradient to the input, seen as a convolution
    """

    channels: int
    size: Pair
    out: Pair
    kernel: Pair
    stride: Pair
    pad: Pair
    dilation: Pair
    reverse: bool = False

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, g: ConvGeometry) -> Planes:
        """A one-dimensional convolution is one row."""

        def pair(values: tuple[int, ...], alone: int) -> Pair:
            return (alone, values[0]) if len(values) == 1 else (values[0], values[1])

        return cls(
            g.ic // g.groups,
            pair(g.in_size, 1),
            pair(g.out_size, 1),
            pair(g.kernel, 1),
            pair(g.stride, 1),
            pair(g.pad, 0),
            pair(g.dilation, 1),
        )

    def reversed(self, channels: int) -> Planes:
        """The convolution from output gradients of `channels` to input gradients, at stride 1.

        diff_src[y] = sum over t of weights[t] * diff_dst[y + pad - t * dilation]
        """
        assert self.stride == (1, 1), "a strided gradient is no convolution"
        reach = tuple(d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True))
        pad = (reach[0] - self.pad[0], reach[1] - self.pad[1])
        return replace(self, channels=channels, size=self.out, out=self.size, pad=pad, reverse=True)

    def windows(self, strip: Strip) -> Windows:
        """The windows of a strip."""
        out, shift, dilation = (
            (strip.out[1], self.out[1]),
            (strip.shift, -self.pad[1]),
            self.dilation,
        )
        if self.reverse:
            shift = (
                shift[0] + dilation[0] * (self.kernel[0] - 1),
                shift[1] + dilation[1] * (self.kernel[1] - 1),
            )
            dilation = (-dilation[0], -dilation[1])
        return Windows(out, self.kernel, self.stride, dilation, shift)

    @property
    def taps(self) -> int:
        """Positions of a window."""
        return self.kernel[0] * self.kernel[1]

    @property
    def window(self) -> int:
        """Rows of the column matrix."""
        return self.channels * self.taps

    @property
    def positions(self) -> int:
        """Outputs of one image and channel: columns of the column matrix for each image."""
        return self.out[0] * self.out[1]


@dataclass(frozen=True, slots=True)
class Strip:
    """Output rows and the image rows that belong to them; `shift` as in Windows."""

    out: Pair
    src: Pair
    shift: int

    def follows(self, other: Strip, step: Pair) -> bool:
        """Whether this is `other` moved on by `step` (output rows, image rows)."""
        moved = other.out[0] + step[0], other.src[0] + step[1]
        same = (self.out[1], self.src[1], self.shift) == (other.out[1], other.src[1], other.shift)
        return same and (self.out[0], self.src[0]) == moved


def strips_for_outputs(planes: Planes, rows: int) -> list[Strip]:
    """Strips of `rows` output rows with the image rows that their windows touch."""
    strips = []
    stride, reach = planes.stride[0], planes.dilation[0] * (planes.kernel[0] - 1) + 1
    for first in range(0, planes.out[0], rows):
        count = min(rows, planes.out[0] - first)
        top = first * stride - planes.pad[0]
        low = min(max(top, 0), planes.size[0] - 1)
        high = max(min(top + (count - 1) * stride + reach, planes.size[0]), low + 1)
        strips.append(Strip((first, count), (low, high - low), top - low))
    return strips


def strips_for_images(planes: Planes, rows: int) -> list[Strip]:
    """Strips of `rows` image rows with the output rows whose windows touch them."""
    strips = []
    stride, reach = planes.stride[0], planes.dilation[0] * (planes.kernel[0] - 1)
    for first in range(0, planes.size[0], rows):
        count = min(rows, planes.size[0] - first)
        low = -(-(first + planes.pad[0] - reach) // stride)
        high = (first + count - 1 + planes.pad[0]) // stride + 1
        low = min(max(low, 0), planes.out[0] - 1)
        high = max(min(high, planes.out[0]), low + 1)
        shift = low * stride - planes.pad[0] - first
        strips.append(Strip((low, high - low), (first, count), shift))
    return strips


def runs(strips: list[Strip]) -> list[tuple[Strip, int, Pair]]:
    """(first strip, how many, step) of stretches that one loop covers."""
    found: list[tuple[Strip, int, Pair]] = []
    for strip in strips:
        if found:
            first, count, step = found[-1]
            if count == 1:
                step = strip.out[0] - first.out[0], strip.src[0] - first.src[0]
            last = count - 1
            before = Strip(
                (first.out[0] + last * step[0], first.out[1]),
                (first.src[0] + last * step[1], first.src[1]),
                first.shift,
            )
            if strip.follows(before, step):
                found[-1] = first, count + 1, step
                continue
        found.append((strip, 1, (0, 0)))
    return found
