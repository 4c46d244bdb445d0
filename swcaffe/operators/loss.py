"""Losses over pairs of arrays, and the counting behind accuracy. Totals are sums in double."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["AccuracyCount", "EuclideanLossForward", "SigmoidLossBackward", "SigmoidLossForward"]


@dataclass(frozen=True, slots=True)
class EuclideanLossForward(Operator):
    """difference = a - b, and the sum of its squares."""

    count: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """a, b."""
        return (Operand("a", (self.count,)), Operand("b", (self.count,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """difference; total (1) (float64)."""
        return (Operand("difference", (self.count,)), Operand("total", (1,), "float64"))

    @property
    def flops(self) -> int:
        """Difference, square, addition."""
        return 3 * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        difference = inputs[0].reshape(-1) - inputs[1].reshape(-1)
        return (difference, np.square(difference, dtype=np.float64).sum(keepdims=True))


@dataclass(frozen=True, slots=True)
class SigmoidLossForward(Operator):
    """Sum of max(x, 0) - x * t + log(1 + e^-|x|) over scores x and targets t, not ignored.

    A target is ignored if, truncated toward zero, it equals ignore_label.
    """

    count: int
    ignore_label: int | None = None

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, target."""
        return (Operand("src", (self.count,)), Operand("target", (self.count,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """totals (2): the sum, and the number of elements counted (float64)."""
        return (Operand("totals", (2,), "float64"),)

    @property
    def flops(self) -> int:
        """Maximum, product, difference, power, logarithm, two additions."""
        return 7 * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        x, t = (a.reshape(-1) for a in inputs)
        loss = np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))
        if self.ignore_label is not None:
            loss = loss[np.trunc(t) != self.ignore_label]
        return (np.array([loss.sum(dtype=np.float64), loss.size], np.float64),)


@dataclass(frozen=True, slots=True)
class SigmoidLossBackward(Operator):
    """diff_src = factor * (sigmoid(src) - target), 0 where the target is ignored."""

    count: int
    ignore_label: int | None = None

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, target, factor (1)."""
        both = (Operand("src", (self.count,)), Operand("target", (self.count,)))
        return (*both, Operand("factor", (1,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", (self.count,)),)

    @property
    def flops(self) -> int:
        """Sigmoid 3, difference, product."""
        return 5 * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        half = np.float32(0.5)
        x, t = (a.reshape(-1) for a in inputs[:2])
        diff = inputs[2].reshape(()) * (half * np.tanh(half * x) + half - t)
        if self.ignore_label is not None:
            diff = np.where(np.trunc(t) == self.ignore_label, np.float32(0), diff)
        return (diff,)


@dataclass(frozen=True, slots=True)
class AccuracyCount(Operator):
    """Per class, how many positions have that label, and how many of these are found.

    A position is found if fewer than top_k other classes score at least as high as its label's: a
    tie counts against it. Labels equal to ignore_label count nothing.
    """

    outer: int
    channels: int
    inner: int
    top_k: int = 1
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
        """found, seen (channels), float64."""
        shape = (self.channels,)
        return (Operand("found", shape, "float64"), Operand("seen", shape, "float64"))

    @property
    def flops(self) -> int:
        """One comparison per element."""
        return self.outer * self.channels * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Comparison with the label's score, then two histograms."""
        labels = inputs[1].reshape(self.outer, self.inner).astype(np.int64)
        counted = np.ones(labels.shape, bool)
        if self.ignore_label is not None:
            counted = labels != self.ignore_label
        n, p = np.nonzero(counted)
        src, own = inputs[0].reshape(self.shape)[n, :, p], labels[n, p]
        score = src[np.arange(len(own)), own]
        rivals = (src >= score[:, None]).sum(axis=1) - 1
        found = np.bincount(own[rivals < self.top_k], minlength=self.channels)
        seen = np.bincount(own, minlength=self.channels)
        return (found.astype(np.float64), seen.astype(np.float64))
