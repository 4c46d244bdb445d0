"""Elementwise combinations of several arrays: weighted sum, product, maximum, dropout.

Gradients are mostly the same computations: of a sum, one term; of a product, a product with the
other factors; of dropout, dropout with the same noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from swcaffe.arrays import F32, Array
from swcaffe.operators.base import Operand, Operator

__all__ = ["Dropout", "EltwiseMax", "EltwiseMaxBackward", "EltwiseProduct", "EltwiseSum"]


def _sources(count: int, arity: int) -> tuple[Operand, ...]:
    return tuple(Operand(f"src{i}", (count,)) for i in range(arity))


@dataclass(frozen=True, slots=True)
class EltwiseSum(Operator):
    """dst = sum of coefficients[i] * src[i]; one term is a scaled copy. dst may be src0."""

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src0", "dst"),)
    count: int
    coefficients: tuple[float, ...]

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src0, src1, …"""
        return _sources(self.count, len(self.coefficients))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", (self.count,)),)

    @property
    def flops(self) -> int:
        """One product (unless by 1) and one addition per element and term, but one."""
        products = sum(c != 1 for c in self.coefficients)
        return (products + self.terms - 1) * self.count

    @property
    def terms(self) -> int:
        """Number of sources."""
        return len(self.coefficients)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """From the first source on."""
        dst = np.float32(self.coefficients[0]) * inputs[0].reshape(-1)
        for coefficient, src in zip(self.coefficients[1:], inputs[1:], strict=True):
            dst += np.float32(coefficient) * src.reshape(-1)
        return (dst,)


@dataclass(frozen=True, slots=True)
class EltwiseProduct(Operator):
    """dst = product of the sources. dst may be src0."""

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src0", "dst"),)
    count: int
    arity: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src0, src1, …"""
        return _sources(self.count, self.arity)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", (self.count,)),)

    @property
    def flops(self) -> int:
        """One per element and source, but one."""
        return (self.arity - 1) * self.count

    @property
    def terms(self) -> int:
        """Number of sources: each product rounds once."""
        return self.arity

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """From the first source on."""
        product: F32 = reduce(np.multiply, (a.reshape(-1) for a in inputs))
        return (product,)


@dataclass(frozen=True, slots=True)
class EltwiseMax(Operator):
    """dst = largest source, and its number.

    Of the first two the second wins a tie, later ones must be greater: Caffe's order.
    """

    count: int
    arity: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src0, src1, …"""
        return _sources(self.count, self.arity)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst, index (int32)."""
        return (Operand("dst", (self.count,)), Operand("index", (self.count,), "int32"))

    @property
    def flops(self) -> int:
        """One comparison per element and source, but one."""
        return (self.arity - 1) * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Source 1 unless source 0 is greater; then each that is greater still."""
        first, second, *others = (a.reshape(-1) for a in inputs)
        dst = np.where(first > second, first, second)
        index = np.where(first > second, 0, 1).astype(np.int32)
        for number, src in enumerate(others, start=2):
            index[src > dst] = number
            dst = np.where(src > dst, src, dst)
        return (dst, index)


@dataclass(frozen=True, slots=True)
class EltwiseMaxBackward(Operator):
    """diff_src = diff_dst where source number `which` had won, else 0."""

    count: int
    which: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """index (int32), diff_dst."""
        return (Operand("index", (self.count,), "int32"), Operand("diff_dst", (self.count,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", (self.count,)),)

    @property
    def flops(self) -> int:
        """One comparison per element."""
        return self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """A selection."""
        index, diff_dst = (a.reshape(-1) for a in inputs)
        return (np.where(index == self.which, diff_dst, np.float32(0)),)


@dataclass(frozen=True, slots=True)
class Dropout(Operator):
    """dst = src / (1 - ratio) where noise >= ratio, else 0; values or gradients, dst may be src.

    noise holds uniform draws from [0, 1), the same ones for values and gradients.
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src", "dst"),)
    count: int
    ratio: float

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, noise."""
        return (Operand("src", (self.count,)), Operand("noise", (self.count,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", (self.count,)),)

    @property
    def flops(self) -> int:
        """Comparison and product."""
        return 2 * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        src, noise = (a.reshape(-1) for a in inputs)
        kept = (noise >= np.float32(self.ratio)).astype(np.float32)
        return (src * (kept * np.float32(1 / (1 - self.ratio))),)
