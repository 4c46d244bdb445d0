"""Softmax along the middle axis of (outer, channels, inner), its gradient, and the softmax loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swcaffe.arrays import F32, Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["SoftmaxBackward", "SoftmaxForward", "SoftmaxLossBackward", "SoftmaxLossForward"]

TINY = np.float32(1.17549435e-38)  # FLT_MIN: the floor of Caffe's logarithm


def _softmax(src: F32) -> F32:
    powers = np.exp(src - src.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


@dataclass(frozen=True, slots=True)
class SoftmaxForward(Operator):
    """dst = e^(src - m) / sum over channels of e^(src - m), m the maximum; dst may be src."""

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
        """src."""
        return (Operand("src", self.shape),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", self.shape),)

    @property
    def flops(self) -> int:
        """Maximum, difference, power, sum, quotient."""
        return 5 * self.outer * self.channels * self.inner

    @property
    def terms(self) -> int:
        """channels."""
        return self.channels

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        return (_softmax(inputs[0].reshape(self.shape)),)


@dataclass(frozen=True, slots=True)
class SoftmaxBackward(Operator):
    """diff_src = dst * (diff_dst - sum over channels of diff_dst * dst); may be diff_dst."""

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
        """dst, diff_dst."""
        return (Operand("dst", self.shape), Operand("diff_dst", self.shape))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.shape),)

    @property
    def flops(self) -> int:
        """Product, sum, difference, product."""
        return 4 * self.outer * self.channels * self.inner

    @property
    def terms(self) -> int:
        """channels."""
        return self.channels

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        dst, diff_dst = (a.reshape(self.shape) for a in inputs)
        return (dst * (diff_dst - (diff_dst * dst).sum(axis=1, keepdims=True)),)


@dataclass(frozen=True, slots=True)
class SoftmaxLossForward(Operator):
    """Probabilities, and the sum of -log max(p[label], FLT_MIN) over positions not ignored.

    labels are class numbers stored as floats, one per (outer, inner), truncated toward zero. Those
    equal to ignore_label count nothing; all others must lie in 0 … channels - 1.
    """

    outer: int
    channels: int
    inner: int
    ignore_label: int | None = None

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, labels."""
        return (Operand("src", self.shape), Operand("labels", (self.outer, self.inner)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """prob; totals (2): sum of the logarithms, number of positions counted (float64)."""
        return (Operand("prob", self.shape), Operand("totals", (2,), "float64"))

    @property
    def flops(self) -> int:
        """Softmax, and one logarithm per position."""
        return (5 * self.channels + 2) * self.outer * self.inner

    @property
    def terms(self) -> int:
        """channels (the totals are summed in double precision)."""
        return self.channels

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Softmax, then one indexed read per position."""
        prob = _softmax(inputs[0].reshape(self.shape))
        labels = inputs[1].reshape(self.outer, self.inner).astype(np.int64)
        n, p = np.nonzero(labels != self.ignore_label) if self.ignores else np.indices(labels.shape)
        likelihood = np.maximum(prob[n, labels[n, p], p], TINY)
        total = -np.log(likelihood).sum(dtype=np.float64)
        return (prob, np.array([total, likelihood.size], np.float64))

    @property
    def ignores(self) -> bool:
        """Whether some labels may be ignored."""
        return self.ignore_label is not None


@dataclass(frozen=True, slots=True)
class SoftmaxLossBackward(Operator):
    """diff_src = factor * (prob - [channel is label]); 0 in all channels of ignored positions."""

    outer: int
    channels: int
    inner: int
    ignore_label: int | None = None

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """prob, labels, factor (1)."""
        labels = Operand("labels", (self.outer, self.inner))
        return (Operand("prob", self.shape), labels, Operand("factor", (1,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.shape),)

    @property
    def flops(self) -> int:
        """One product per element, one difference per position."""
        return (self.channels + 1) * self.outer * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Copy, subtract one per position, scale."""
        diff = inputs[0].reshape(self.shape).copy()
        labels = inputs[1].reshape(self.outer, self.inner).astype(np.int64)
        counted = np.ones(labels.shape, bool)
        if self.ignore_label is not None:
            counted = labels != self.ignore_label
        n, p = np.nonzero(counted)
        diff[n, labels[n, p], p] -= 1
        return (np.where(counted[:, None, :], diff * inputs[2].reshape(()), np.float32(0)),)
