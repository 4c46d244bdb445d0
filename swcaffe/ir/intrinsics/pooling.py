"""Pooling of strips of image rows: maximum and mean of windows, and their gradients.

Tiles are (planes, rows, cols), planes dealt over the mesh: every CPE pools planes of its own. The
maximum is kept with its place, row * width + column of the whole plane, so that its gradient is a
scatter. Windows are clipped to the image; a mean divides by the window as clipped to the padding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.ir.buffer import Region
from swcaffe.ir.intrinsic import Intrinsic, Work
from swcaffe.machine.spec import Machine

__all__ = ["LOWEST", "AvePool", "AvePoolGradient", "MaxPool", "MaxPoolGradient", "PoolStrip"]

Pair: TypeAlias = tuple[int, int]

LOWEST = np.float32(-3.4028234663852886e38)
"""-FLT_MAX: what Caffe's maximum starts from."""
DIVISION = 30
"""Cycles of a division (assumed: no published figure)."""


@dataclass(frozen=True, slots=True)
class PoolStrip:
    """Some rows of an image and of its output.

    first  image row of the strip's row 0
    shift  strip row and column where the window of the strip's output (0, 0) starts
    size   rows and columns of the whole image
    """

    kernel: Pair
    stride: Pair
    pad: Pair
    size: Pair
    shift: Pair
    first: int

    def window(self, axis: int, position: int, extent: int) -> tuple[int, int, int]:
        """(start, end, length): the part inside a strip of `extent`, and the divisor's length."""
        start = position * self.stride[axis] + self.shift[axis]
        place = start + (self.first if axis == 0 else 0)
        length = min(place + self.kernel[axis], self.size[axis] + self.pad[axis]) - place
        low, high = max(start, 0), min(start + self.kernel[axis], extent)
        return low, max(low, high), length

    @property
    def taps(self) -> int:
        """Positions of a window."""
        return math.prod(self.kernel)

    def steps(self, outputs: int, machine: Machine) -> int:
        """Vectors of outputs: at column stride 1 rows are vectors, else single elements."""
        return -(-outputs // machine.kernel.lanes) if self.stride[1] == 1 else outputs


@dataclass(frozen=True, slots=True)
class MaxPool(Intrinsic):
    """dst, index = largest element of each window, first in row order, and its place or -1.

    Arguments: dst, index (int32), src.
    """

    name: ClassVar[str] = "max_pool"
    c_name: ClassVar[str] = "sw_max_pool"
    strip: PoolStrip

    def tile(self, *args: Array) -> None:
        """Window by window."""
        dst, index, src = args
        for y, x in np.ndindex(*dst.shape[1:]):
            (h0, h1, _), (w0, w1, _) = (
                self.strip.window(axis, at, src.shape[1 + axis]) for axis, at in enumerate((y, x))
            )
            dst[:, y, x], index[:, y, x] = LOWEST, -1
            for h, w in ((h, w) for h in range(h0, h1) for w in range(w0, w1)):
                more = src[:, h, w] > dst[:, y, x]
                dst[more, y, x] = src[more, h, w]
                index[more, y, x] = (self.strip.first + h) * self.strip.size[1] + w

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The image."""
        return args[2:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Maxima and places."""
        return args[:2]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Each tap: one load; a comparison and two selections in the other pipeline."""
        steps = self.strip.steps(math.prod(sizes[0]), machine)
        return Work(cycles=3 * self.strip.taps * steps, pipeline="P0")


@dataclass(frozen=True, slots=True)
class MaxPoolGradient(Intrinsic):
    """diff_src = sum of the output gradients whose place it is.

    Arguments: diff_src, index (int32), diff_dst. Places outside the strip belong to another one.
    """

    name: ClassVar[str] = "max_pool_gradient"
    c_name: ClassVar[str] = "sw_max_pool_gradient"
    strip: PoolStrip

    def tile(self, *args: Array) -> None:
        """A scatter in index order."""
        diff_src, index, diff_dst = args
        planes, rows, cols = diff_src.shape
        total = np.zeros((planes, rows * cols), np.float32)
        local = index.reshape(planes, -1).astype(np.int64) - self.strip.first * cols
        inside = (local >= 0) & (local < rows * cols) & (index.reshape(planes, -1) >= 0)
        plane, place = np.nonzero(inside)
        np.add.at(total, (plane, local[inside]), diff_dst.reshape(planes, -1)[plane, place])
        diff_src[...] = total.reshape(diff_src.shape)

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Places and output gradients."""
        return args[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Image gradients."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Clear the image; each output: load place, gradient and sum, store the sum."""
        clear = -(-math.prod(sizes[0]) // machine.kernel.lanes)
        return Work(cycles=clear + 4 * math.prod(sizes[1]))


@dataclass(frozen=True, slots=True)
class AvePool(Intrinsic):
    """dst = sum of each window / its size. Arguments: dst, src."""

    name: ClassVar[str] = "ave_pool"
    c_name: ClassVar[str] = "sw_ave_pool"
    strip: PoolStrip

    def tile(self, *args: Array) -> None:
        """Window by window."""
        dst, src = args
        for y, x in np.ndindex(*dst.shape[1:]):
            (h0, h1, rows), (w0, w1, cols) = (
                self.strip.window(axis, at, src.shape[1 + axis]) for axis, at in enumerate((y, x))
            )
            total = src[:, h0:h1, w0:w1].sum(axis=(1, 2))
            dst[:, y, x] = total / np.float32(rows * cols)

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The image."""
        return args[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Means."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Each tap: one load, and one addition in the other pipeline; then a division."""
        steps = self.strip.steps(math.prod(sizes[0]), machine)
        return Work(cycles=(self.strip.taps + DIVISION) * steps, pipeline="P0")


@dataclass(frozen=True, slots=True)
class AvePoolGradient(Intrinsic):
    """diff_src = sum over its windows of diff_dst / size. Arguments: diff_src, diff_dst."""

    name: ClassVar[str] = "ave_pool_gradient"
    c_name: ClassVar[str] = "sw_ave_pool_gradient"
    strip: PoolStrip

    def tile(self, *args: Array) -> None:
        """Window by window."""
        diff_src, diff_dst = args
        diff_src[...] = 0
        for y, x in np.ndindex(*diff_dst.shape[1:]):
            (h0, h1, rows), (w0, w1, cols) = (
                self.strip.window(axis, at, diff_src.shape[1 + axis])
                for axis, at in enumerate((y, x))
            )
            share = diff_dst[:, y, x] / np.float32(rows * cols)
            diff_src[:, h0:h1, w0:w1] += share[:, None, None]

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Output gradients."""
        return args[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Image gradients."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Clear the image; each output: a division, and for each tap a load and a store."""
        clear = -(-math.prod(sizes[0]) // machine.kernel.lanes)
        steps = self.strip.steps(math.prod(sizes[1]), machine)
        return Work(cycles=clear + max(2 * self.strip.taps, DIVISION) * steps)
