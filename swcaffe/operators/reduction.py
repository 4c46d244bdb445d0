"""Sums along the middle axis of (outer, channels, inner), and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from swcaffe.arrays import F32, Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["ReduceBackward", "ReduceForward", "ReduceKind"]

ReduceKind: TypeAlias = Literal["sum", "asum", "sumsq"]


@dataclass(frozen=True, slots=True)
class ReduceForward(Operator):
    """dst (outer, inner) = coefficient * sum over channels of x, |x| (asum) or x^2 (sumsq)."""

    kind: ReduceKind
    outer: int
    channels: int
    inner: int = 1
    coefficient: float = 1.0

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", (self.outer, self.channels, self.inner)),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", (self.outer, self.inner)),)

    @property
    def flops(self) -> int:
        """One addition per element, and one function unless it is a plain sum."""
        return (1 + (self.kind != "sum")) * self.outer * self.channels * self.inner

    @property
    def terms(self) -> int:
        """channels."""
        return self.channels

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Summed in double precision."""
        src = inputs[0].reshape(self.outer, self.channels, self.inner).astype(np.float64)
        terms = {"sum": np.positive, "asum": np.abs, "sumsq": np.square}[self.kind](src)
        return ((self.coefficient * terms.sum(axis=1)).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class ReduceBackward(Operator):
    """diff_src = coefficient * diff_dst, repeated along channels; times sign(x) or 2 x.

    The slope of asum at 0 is 0. That of a sum reads no src: it repeats an array, no more.
    """

    kind: ReduceKind
    outer: int
    channels: int
    inner: int = 1
    coefficient: float = 1.0

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src unless it is a plain sum; diff_dst."""
        diff = Operand("diff_dst", (self.outer, self.inner))
        return (diff,) if self.kind == "sum" else (Operand("src", self.shape), diff)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.shape),)

    @property
    def flops(self) -> int:
        """One product per result of the sum, one per element unless it is a plain sum."""
        own = 0 if self.kind == "sum" else self.channels
        return ((self.coefficient != 1) + own) * self.outer * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formulas in numpy."""
        factor = np.float32(self.coefficient) * inputs[-1].reshape(self.outer, 1, self.inner)
        if self.kind == "sum":
            return (np.broadcast_to(factor, self.shape),)
        src: F32 = inputs[0].reshape(self.shape)
        slope = np.sign(src) if self.kind == "asum" else np.float32(2) * src
        return (np.where(slope == 0, np.float32(0), factor * slope),)
