"""Losses of given probabilities: -log of the label's, or of all, weighted by an infogain matrix.

Logarithms are those of probabilities of at least 1e-20, Caffe's floor; totals are sums in double.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import F32, Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["InfogainBackward", "InfogainForward", "LogLossBackward", "LogLossForward"]

FLOOR = np.float32(1e-20)


@dataclass(frozen=True, slots=True)
class LogLossForward(Operator):
    """total = sum over items of -log max(prob[label], 1e-20)."""

    items: int
    classes: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """prob (items, classes), labels (items)."""
        return (Operand("prob", (self.items, self.classes)), Operand("labels", (self.items,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """total (1) (float64)."""
        return (Operand("total", (1,), "float64"),)

    @property
    def flops(self) -> int:
        """Logarithm and addition per item."""
        return 2 * self.items

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One indexed read per item."""
        prob, labels = inputs[0].reshape(self.items, self.classes), inputs[1].reshape(-1)
        own = prob[np.arange(self.items), labels.astype(np.int64)]
        return (-np.log(np.maximum(own, FLOOR)).sum(dtype=np.float64, keepdims=True),)


@dataclass(frozen=True, slots=True)
class LogLossBackward(Operator):
    """diff_prob = -factor / max(prob, 1e-20) at the label, else 0."""

    items: int
    classes: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """prob (items, classes), labels (items), factor (1)."""
        prob = Operand("prob", (self.items, self.classes))
        return (prob, Operand("labels", (self.items,)), Operand("factor", (1,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_prob."""
        return (Operand("diff_prob", (self.items, self.classes)),)

    @property
    def flops(self) -> int:
        """One quotient per item."""
        return self.items

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One indexed write per item."""
        prob = inputs[0].reshape(self.items, self.classes)
        own = (np.arange(self.items), inputs[1].reshape(-1).astype(np.int64))
        diff = np.zeros_like(prob)
        diff[own] = -inputs[2].reshape(()) / np.maximum(prob[own], FLOOR)
        return (diff,)


def _rows(matrix: Array, labels: Array, classes: int, ignore_label: int | None) -> F32:
    """Row of each label, with classes on axis 1; zeros where the label is ignored."""
    whole = labels.astype(np.int64)
    counted = np.ones(whole.shape, bool) if ignore_label is None else whole != ignore_label
    rows = matrix.reshape(classes, classes)[np.where(counted, whole, 0)]
    return np.asarray(np.moveaxis(np.where(counted[..., None], rows, 0), -1, 1), np.float32)


@dataclass(frozen=True, slots=True)
class InfogainForward(Operator):
    """Sum over positions and classes l of -H[label, l] * log max(prob[l], 1e-20).

    prob has shape (outer, channels, inner), channels being classes. Labels equal to ignore_label
    count nothing.
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
        """prob, labels (outer, inner), matrix (channels, channels)."""
        labels = Operand("labels", (self.outer, self.inner))
        return (Operand("prob", self.shape), labels, Operand("matrix", (self.channels,) * 2))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """totals (2): the sum, and the number of positions counted (float64)."""
        return (Operand("totals", (2,), "float64"),)

    @property
    def flops(self) -> int:
        """Logarithm, product, addition per element."""
        return 3 * self.outer * self.channels * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One row of the matrix per position."""
        labels = inputs[1].reshape(self.outer, self.inner)
        weights = _rows(inputs[2], labels, self.channels, self.ignore_label)
        logs = np.log(np.maximum(inputs[0].reshape(self.shape), FLOOR))
        counted = labels.size
        if self.ignore_label is not None:
            counted = int(np.count_nonzero(labels.astype(np.int64) != self.ignore_label))
        total = -(weights * logs).sum(dtype=np.float64)
        return (np.array([total, counted], np.float64),)


@dataclass(frozen=True, slots=True)
class InfogainBackward(Operator):
    """Gradient to the scores that softmax made prob of; 0 in all channels of ignored positions.

    diff_src[l] = factor * (prob[l] * sum of H[label] - H[label, l])
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
        """prob, labels (outer, inner), matrix (channels, channels), factor (1)."""
        labels = Operand("labels", (self.outer, self.inner))
        matrix = Operand("matrix", (self.channels, self.channels))
        return (Operand("prob", self.shape), labels, matrix, Operand("factor", (1,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.shape),)

    @property
    def flops(self) -> int:
        """Sum, product, difference, product per element."""
        return 4 * self.outer * self.channels * self.inner

    @property
    def terms(self) -> int:
        """channels."""
        return self.channels

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One row of the matrix per position."""
        labels = inputs[1].reshape(self.outer, self.inner)
        weights = _rows(inputs[2], labels, self.channels, self.ignore_label)
        prob, factor = inputs[0].reshape(self.shape), inputs[3].reshape(())
        return (factor * (prob * weights.sum(axis=1, keepdims=True) - weights),)
