"""Groups of values brought to mean 0 and, if asked, to deviation 1; and the gradient of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swcaffe.arrays import F32, Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["StandardizeBackward", "StandardizeForward"]


def _mean(values: Array) -> F32:
    return np.asarray(values.mean(axis=1, keepdims=True, dtype=np.float64), np.float32)


@dataclass(frozen=True, slots=True)
class StandardizeForward(Operator):
    """dst = (src - mean) / (deviation + eps) per row of (groups, width); dst may be src.

    deviation is the root of the biased variance. Without `scaled`, dst = src - mean.
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src", "dst"),)
    groups: int
    width: int
    eps: float
    scaled: bool = True

    @property
    def shape(self) -> Shape:
        """(groups, width)."""
        return (self.groups, self.width)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", self.shape),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst, mean; with scaled also divisor, deviation + eps."""
        found = (Operand("dst", self.shape), Operand("mean", (self.groups,)))
        return (*found, Operand("divisor", (self.groups,))) if self.scaled else found

    @property
    def flops(self) -> int:
        """Mean 1, difference 1; with scaled variance 2 and quotient 1 per element."""
        return (5 if self.scaled else 2) * self.groups * self.width

    @property
    def terms(self) -> int:
        """Elements of a group."""
        return self.width

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Two passes: the mean, then the squares around it."""
        src = inputs[0].reshape(self.shape)
        mean = _mean(src)
        dst = src - mean
        if not self.scaled:
            return (dst, mean)
        divisor = np.sqrt(_mean(dst * dst)) + np.float32(self.eps)
        return (dst / divisor, mean, divisor)


@dataclass(frozen=True, slots=True)
class StandardizeBackward(Operator):
    """Gradient to src of `StandardizeForward`; diff_src may be diff_dst.

    scaled  (diff_dst - mean(diff_dst) - y * mean(diff_dst * y)) / divisor, with y the dst
    else    diff_dst - mean(diff_dst)
    Means are over a group; that eps bends the slope of the divisor is neglected, as in Caffe, which
    holds for eps far below the deviation. y is computed again from src, so that a later
    layer may overwrite dst.
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("diff_dst", "diff_src"),)
    groups: int
    width: int
    scaled: bool = True

    @property
    def shape(self) -> Shape:
        """(groups, width)."""
        return (self.groups, self.width)

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """With scaled src, mean, divisor; always diff_dst."""
        diff = Operand("diff_dst", self.shape)
        if not self.scaled:
            return (diff,)
        rows = (Operand("mean", (self.groups,)), Operand("divisor", (self.groups,)))
        return (Operand("src", self.shape), *rows, diff)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.shape),)

    @property
    def flops(self) -> int:
        """Mean 1, difference 1; with scaled y 2, second mean 2, combination 3 per element."""
        return (9 if self.scaled else 2) * self.groups * self.width

    @property
    def terms(self) -> int:
        """Elements of a group."""
        return self.width

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formulas in numpy."""
        diff_dst = inputs[-1].reshape(self.shape)
        if not self.scaled:
            return (diff_dst - _mean(diff_dst),)
        mean, divisor = (a.reshape(-1, 1) for a in inputs[1:3])
        y = (inputs[0].reshape(self.shape) - mean) / divisor
        return ((diff_dst - _mean(diff_dst) - y * _mean(diff_dst * y)) / divisor,)
