"""Im2col and Col2im: the windows of a strip of image rows as a matrix, and the way back.

The strip is (channels, images, rows, cols), the matrix (channels * taps, images, positions), with
positions row by row and taps in row-major order of the window. Both are local: images are dealt
alike over the mesh, and channels too, so each CPE has all taps of its own planes. Im2col also takes
a strip whose channels every CPE has, and then writes only the CPE's share of the matrix rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.ir.buffer import Along, MeshShape, Region
from swcaffe.ir.expr import ZERO, Affine
from swcaffe.ir.intrinsic import Intrinsic, Work
from swcaffe.ir.stmt import Apply, Stmt
from swcaffe.machine.spec import Machine

__all__ = ["Col2im", "Im2col", "Pair", "Windows"]

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """Which strip element each tap of each output position reads.

    out    output rows and columns of the strip
    shift  strip row of output row 0, tap 0, and the same for columns; negative in the padding
    """

    out: Pair
    kernel: Pair
    stride: Pair
    dilation: Pair
    shift: Pair

    @property
    def taps(self) -> int:
        """Positions of a window."""
        return self.kernel[0] * self.kernel[1]

    def index(self, strip: Pair) -> tuple[Array, Array]:
        """(flat strip index, inside) of each (tap, position), for a strip of these sizes."""
        axes = []
        for a in (0, 1):
            taps, out = np.arange(self.kernel[a]), np.arange(self.out[a])
            axes.append(
                taps[:, None] * self.dilation[a] + out[None] * self.stride[a] + self.shift[a]
            )
        y, x = axes[0][:, None, :, None], axes[1][None, :, None, :]
        inside = (y >= 0) & (y < strip[0]) & (x >= 0) & (x < strip[1])
        flat = np.where(inside, y * strip[1] + x, 0)
        return flat.reshape(self.taps, -1), inside.reshape(self.taps, -1)


@dataclass(frozen=True, slots=True)
class Im2col(Intrinsic):
    """matrix = windows of the strip, zero in the padding. Arguments: matrix, strip.

    first  row of the whole matrix that is row 0 of a CPE's block, where only rows are dealt
    """

    name: ClassVar[str] = "im2col"
    c_name: ClassVar[str] = "sw_im2col"
    windows: Windows
    first: Affine = ZERO

    def tile(self, *args: Array) -> None:
        """One gather."""
        matrix, strip = args
        index, inside = self.windows.index(strip.shape[2:])
        flat = strip.reshape(*strip.shape[:2], -1)
        columns = np.where(inside, flat[:, :, index], 0)
        matrix[...] = columns.transpose(0, 2, 1, 3).reshape(matrix.shape)

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The strip."""
        return args[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The matrix."""
        return args[:1]

    def refuse(self, args: tuple[Region, ...], machine: Machine) -> str | None:
        """Images dealt alike; channels too, or by matrix rows alone; positions not at all."""
        matrix, strip = (region.buffer.partition for region in args)
        if matrix[1] is not strip[1] or set(matrix[2:] + strip[2:]) != {Along.NONE}:
            return "images must be dealt alike, and rows and positions not at all"
        if strip[0] not in (matrix[0], Along.NONE):
            return f"channels are dealt by {strip[0].value}, matrix rows by {matrix[0].value}"
        return None

    def expand(self, args: tuple[Region, ...], blocks: tuple[Region, ...], mesh: MeshShape) -> Stmt:
        """Local; where only matrix rows are dealt, each CPE starts at its own row."""
        along = args[0].buffer.partition[0]
        if args[1].buffer.partition[0] is along:
            return Apply(self, blocks)
        first = along.index(mesh) * blocks[0].buffer.shape[0]
        return Apply(replace(self, first=first), blocks)

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """One load and one store of each element: shifted rows are not aligned to vectors."""
        return Work(cycles=2 * math.prod(sizes[0]))


@dataclass(frozen=True, slots=True)
class Col2im(Intrinsic):
    """strip = sum of the matrix elements that read it. Arguments: strip, matrix."""

    name: ClassVar[str] = "col2im"
    c_name: ClassVar[str] = "sw_col2im"
    windows: Windows

    def tile(self, *args: Array) -> None:
        """One scatter-add in order of taps."""
        strip, matrix = args
        index, inside = self.windows.index(strip.shape[2:])
        planes = np.zeros((strip.shape[0], strip.shape[1], math.prod(strip.shape[2:])))
        shape = (strip.shape[0], self.windows.taps, strip.shape[1], -1)
        columns = matrix.reshape(shape).transpose(0, 2, 1, 3)
        for tap in range(self.windows.taps):
            planes[:, :, index[tap][inside[tap]]] += columns[:, :, tap][:, :, inside[tap]]
        strip[...] = planes.reshape(strip.shape)

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The matrix."""
        return args[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The strip."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Two loads and one store of each matrix element, and clearing the strip."""
        return Work(cycles=3 * math.prod(sizes[1]) + math.prod(sizes[0]) // machine.kernel.lanes)
