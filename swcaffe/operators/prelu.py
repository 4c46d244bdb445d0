"""Rectification with a learned slope per channel of (outer, channels, inner), and its gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["PReluBackwardData", "PReluBackwardWeights", "PReluForward"]


@dataclass(frozen=True, slots=True)
class PReluForward(Operator):
    """dst = max(src, 0) + slope[channel] * min(src, 0); dst may be src."""

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src", "dst"),)
    outer: int
    channels: int
    inner: int

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, slope."""
        return (Operand("src", self.shape), Operand("slope", (self.channels,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", self.shape),)

    @property
    def flops(self) -> int:
        """One per element."""
        return self.outer * self.channels * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        src, slope = inputs[0].reshape(self.shape), inputs[1].reshape(1, -1, 1)
        return (np.maximum(src, 0) + slope * np.minimum(src, 0),)


@dataclass(frozen=True, slots=True)
class PReluBackwardData(Operator):
    """diff_src = diff_dst where src > 0, else slope[channel] * diff_dst; may be diff_dst."""

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("diff_dst", "diff_src"),)
    outer: int
    channels: int
    inner: int

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, slope, diff_dst."""
        slope = Operand("slope", (self.channels,))
        return (Operand("src", self.shape), slope, Operand("diff_dst", self.shape))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.shape),)

    @property
    def flops(self) -> int:
        """One per element."""
        return self.outer * self.channels * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        src, slope = inputs[0].reshape(self.shape), inputs[1].reshape(1, -1, 1)
        return (inputs[2].reshape(self.shape) * np.where(src > 0, np.float32(1), slope),)


@dataclass(frozen=True, slots=True)
class PReluBackwardWeights(Operator):
    """diff_slope = sum of diff_dst * min(src, 0) per channel; added to what is there."""

    outer: int
    channels: int
    inner: int

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, diff_dst."""
        return (Operand("src", self.shape), Operand("diff_dst", self.shape))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_slope."""
        return (Operand("diff_slope", (self.channels,), accumulate=True),)

    @property
    def flops(self) -> int:
        """Two per element."""
        return 2 * self.outer * self.channels * self.inner

    @property
    def terms(self) -> int:
        """Elements of a channel."""
        return self.outer * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sums over outer and inner."""
        src, diff_dst = (a.reshape(self.shape) for a in inputs)
        return (np.einsum("oci,oci->c", np.minimum(src, 0), diff_dst),)
