"""Batch normalisation per channel of (outer, channels, inner), and its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swcaffe.arrays import F32, Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["BatchNormBackward", "BatchNormForward"]


def _column(values: Array) -> F32:
    return np.asarray(values, np.float32).reshape(1, -1, 1)


def _mean(values: F32) -> F32:
    return np.asarray(values.mean(axis=(0, 2), dtype=np.float64), np.float32)


@dataclass(frozen=True, slots=True)
class BatchNormForward(Operator):
    """dst = (src - mean) / sqrt(variance + eps) per channel; dst may be src.

    of_batch    mean and (biased) variance are those of src, and outputs; else they are inputs
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src", "dst"),)
    outer: int
    channels: int
    inner: int
    eps: float
    of_batch: bool = True

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def _statistics(self) -> tuple[Operand, Operand]:
        return (Operand("mean", (self.channels,)), Operand("variance", (self.channels,)))

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src; without of_batch also mean, variance."""
        src = Operand("src", self.shape)
        return (src,) if self.of_batch else (src, *self._statistics)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst; with of_batch also mean, variance."""
        dst = Operand("dst", self.shape)
        return (dst, *self._statistics) if self.of_batch else (dst,)

    @property
    def flops(self) -> int:
        """Mean 1, variance 3, normalisation 2 per element."""
        return (6 if self.of_batch else 2) * self.outer * self.channels * self.inner

    @property
    def terms(self) -> int:
        """Elements of a channel, if they are summed."""
        return self.outer * self.inner if self.of_batch else 1

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Two passes: the mean, then the squares around it."""
        src = inputs[0].reshape(self.shape)
        if self.of_batch:
            mean = _mean(src)
            variance = _mean((src - _column(mean)) ** 2)
        else:
            mean, variance = inputs[1].reshape(-1), inputs[2].reshape(-1)
        deviation = np.sqrt(variance + np.float32(self.eps))
        dst = (src - _column(mean)) / _column(deviation)
        return (dst, mean, variance) if self.of_batch else (dst,)


@dataclass(frozen=True, slots=True)
class BatchNormBackward(Operator):
    """Gradient to src of `BatchNormForward`; diff_src may be diff_dst.

    With y the normalised src and s = sqrt(variance + eps):
    of_batch    (diff_dst - mean(diff_dst) - y * mean(diff_dst * y)) / s, means over a channel
    else        diff_dst / s
    y is computed again from src, so that a later layer may overwrite dst.
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("diff_dst", "diff_src"),)
    outer: int
    channels: int
    inner: int
    eps: float
    of_batch: bool = True

    @property
    def shape(self) -> Shape:
        """(outer, channels, inner)."""
        return (self.outer, self.channels, self.inner)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """With of_batch src, mean; always variance, diff_dst."""
        src, mean = Operand("src", self.shape), Operand("mean", (self.channels,))
        rest = (Operand("variance", (self.channels,)), Operand("diff_dst", self.shape))
        return (src, mean, *rest) if self.of_batch else rest

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.shape),)

    @property
    def flops(self) -> int:
        """Normalisation 2, two means 3, combination 4 per element."""
        return (9 if self.of_batch else 1) * self.outer * self.channels * self.inner

    @property
    def terms(self) -> int:
        """Elements of a channel, if they are summed."""
        return self.outer * self.inner if self.of_batch else 1

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formulas in numpy."""
        variance, diff_dst = inputs[-2], inputs[-1].reshape(self.shape)
        deviation = _column(np.sqrt(variance + np.float32(self.eps)))
        if not self.of_batch:
            return (diff_dst / deviation,)
        y = (inputs[0].reshape(self.shape) - _column(inputs[1])) / deviation
        common = _column(_mean(diff_dst)) + y * _column(_mean(diff_dst * y))
        return ((diff_dst - common) / deviation,)
