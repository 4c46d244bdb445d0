"""Local response normalisation across channels or within planes, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from swcaffe.arrays import F32, Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["LrnBackward", "LrnForward", "LrnGeometry", "LrnRegion"]

LrnRegion: TypeAlias = Literal["across", "within"]


@dataclass(frozen=True, slots=True)
class LrnGeometry:
    """A normalisation of src (n, c, h, w) over `size` channels or `size` x `size` pixels.

    scale = k + weight * sum of squares in the window; what lies outside the image counts as 0.
    """

    n: int
    c: int
    h: int
    w: int
    size: int
    alpha: float
    beta: float
    k: float = 1.0
    region: LrnRegion = "across"

    @property
    def shape(self) -> Shape:
        """(n, c, h, w)."""
        return (self.n, self.c, self.h, self.w)

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.n * self.c * self.h * self.w

    @property
    def window(self) -> int:
        """Elements of a window."""
        return self.size if self.region == "across" else self.size * self.size

    @property
    def weight(self) -> float:
        """alpha / window."""
        return self.alpha / self.window

    def window_sum(self, values: Array) -> F32:
        """Sum over the window around each element of `values` (n, c, h, w)."""
        for axis in (1,) if self.region == "across" else (2, 3):
            values = self._axis_sum(values, axis)
        return np.asarray(values, np.float32)

    def _axis_sum(self, values: Array, axis: int) -> F32:
        half = self.size // 2
        widths = [(half, half) if a == axis else (0, 0) for a in range(4)]
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(values, widths), self.size, axis=axis
        )
        return np.asarray(windows.sum(axis=-1), np.float32)


@dataclass(frozen=True, slots=True)
class LrnForward(Operator):
    """dst = src * scale^-beta, and scale, which the gradient reads."""

    geometry: LrnGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", self.geometry.shape),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst, scale."""
        return (Operand("dst", self.geometry.shape), Operand("scale", self.geometry.shape))

    @property
    def flops(self) -> int:
        """Square, window sum, weight, power, product."""
        return (self.terms + 5) * self.geometry.count

    @property
    def terms(self) -> int:
        """Window elements."""
        return self.geometry.window

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sums over sliding windows."""
        g = self.geometry
        src = inputs[0].reshape(g.shape)
        scale = np.float32(g.k) + np.float32(g.weight) * g.window_sum(src * src)
        return (src * scale ** np.float32(-g.beta), scale)


@dataclass(frozen=True, slots=True)
class LrnBackward(Operator):
    """diff_src from src, scale and diff_dst.

    diff_dst * scale^-beta - 2 * weight * beta * src * window sum(diff_dst * src * scale^(-beta-1)).
    It does not read dst, so that a later layer may overwrite it.
    """

    geometry: LrnGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, scale, diff_dst."""
        return tuple(Operand(name, self.geometry.shape) for name in ("src", "scale", "diff_dst"))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.geometry.shape),)

    @property
    def flops(self) -> int:
        """Power, quotient, two products, window sum, three more."""
        return (self.terms + 7) * self.geometry.count

    @property
    def terms(self) -> int:
        """Window elements."""
        return self.geometry.window

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula, with sums over sliding windows."""
        g = self.geometry
        src, scale, diff_dst = (a.reshape(g.shape) for a in inputs)
        direct = diff_dst * scale ** np.float32(-g.beta)
        through = g.window_sum(direct * src / scale)
        return (direct - np.float32(2 * g.weight * g.beta) * src * through,)
