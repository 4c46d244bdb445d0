"""The windows of a convolution as columns, and columns summed back into the image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.operators.base import Operand, Operator
from swcaffe.operators.convolution import ConvGeometry

__all__ = ["Col2im", "Im2col"]


def _columns(geometry: ConvGeometry) -> Shape:
    """(n, input channels, kernel positions, *out_size)."""
    taps = math.prod(geometry.kernel)
    return (geometry.n, geometry.ic, taps, *geometry.out_size)


@dataclass(frozen=True, slots=True)
class Im2col(Operator):
    """dst[n, c, t, p] = src[n, c, p s - pad + t d], 0 in the padding; weights play no part."""

    geometry: ConvGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", self.geometry.src),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst (n, ic, kernel positions, *out_size)."""
        return (Operand("dst", _columns(self.geometry)),)

    @property
    def flops(self) -> int:
        """None: it only copies."""
        return 0

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One strided copy per kernel position."""
        g = self.geometry
        src = g.padded(inputs[0])
        windows = [src[(slice(None), slice(None), *window)] for window in g.taps()]
        return (np.stack(windows, axis=2),)


@dataclass(frozen=True, slots=True)
class Col2im(Operator):
    """Gradient of `Im2col`: each element of the image sums the columns it went to."""

    geometry: ConvGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """diff_dst (n, ic, kernel positions, *out_size)."""
        return (Operand("diff_dst", _columns(self.geometry)),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.geometry.src),)

    @property
    def flops(self) -> int:
        """One addition per element of the columns."""
        return math.prod(_columns(self.geometry))

    @property
    def terms(self) -> int:
        """Kernel positions, at most."""
        return math.prod(self.geometry.kernel)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One strided addition per kernel position."""
        g = self.geometry
        columns = inputs[0].reshape(_columns(g))
        diff_src = g.padded(np.zeros(g.src, np.float32))
        for t, window in enumerate(g.taps()):
            diff_src[(slice(None), slice(None), *window)] += columns[:, :, t]
        return (g.unpadded(diff_src),)
