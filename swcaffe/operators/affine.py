"""Scale and shift per channel of (outer, channels, inner), and the gradients of both.

The gradient to the data is the same computation: diff_dst scaled, without a shift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["AffineBackwardWeights", "AffineForward"]


@dataclass(frozen=True, slots=True)
class AffineForward(Operator):
    """dst = src * scale[channel] + bias[channel], either part optional; dst may be src."""

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src", "dst"),)
    outer: int
    channels: int
    inner: int
    has_scale: bool = True
    has_bias: bool = False

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, then scale and bias as far as there are any."""
        found = [Operand("src", self.shape)]
        if self.has_scale:
            found.append(Operand("scale", (self.channels,)))
        if self.has_bias:
            found.append(Operand("bias", (self.channels,)))
        return tuple(found)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", self.shape),)

    @property
    def flops(self) -> int:
        """One per element and part."""
        return (self.has_scale + self.has_bias) * self.outer * self.channels * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Broadcast along outer and inner."""
        dst, column = inputs[0].reshape(self.shape), (1, self.channels, 1)
        if self.has_scale:
            dst = dst * inputs[1].reshape(column)
        if self.has_bias:
            dst = dst + inputs[-1].reshape(column)
        return (dst,)


@dataclass(frozen=True, slots=True)
class AffineBackwardWeights(Operator):
    """Per channel diff_scale = sum of src * diff_dst and diff_bias = sum of diff_dst.

    accumulate  add to what is there (parameters) or overwrite (bottoms)
    """

    outer: int
    channels: int
    inner: int
    has_scale: bool = True
    has_bias: bool = False
    accumulate: bool = True

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """With has_scale src; diff_dst."""
        diff_dst = Operand("diff_dst", self.shape)
        return (Operand("src", self.shape), diff_dst) if self.has_scale else (diff_dst,)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_scale and diff_bias as far as asked for."""
        names = ["diff_scale"] * self.has_scale + ["diff_bias"] * self.has_bias
        return tuple(Operand(n, (self.channels,), accumulate=self.accumulate) for n in names)

    @property
    def flops(self) -> int:
        """Two per element for the scale, one for the bias."""
        return (2 * self.has_scale + self.has_bias) * self.outer * self.channels * self.inner

    @property
    def terms(self) -> int:
        """Elements of a channel."""
        return self.outer * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sums over outer and inner."""
        diff_dst = inputs[-1].reshape(self.shape)
        found: list[Array] = []
        if self.has_scale:
            found.append(np.einsum("oci,oci->c", inputs[0].reshape(self.shape), diff_dst))
        if self.has_bias:
            found.append(diff_dst.sum(axis=(0, 2)))
        return tuple(found)
