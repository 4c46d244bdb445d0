"""Table look-up by index, and the gradient to the table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import Array
from swcaffe.operators.base import Operand, Operator

__all__ = ["EmbedBackward", "EmbedForward"]


@dataclass(frozen=True, slots=True)
class EmbedForward(Operator):
    """dst[i] = weights[index[i]] + bias; weights (rows, width), index whole numbers as floats."""

    count: int
    rows: int
    width: int
    has_bias: bool = True

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """index, weights and, with has_bias, bias."""
        both = (Operand("index", (self.count,)), Operand("weights", (self.rows, self.width)))
        return (*both, Operand("bias", (self.width,))) if self.has_bias else both

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", (self.count, self.width)),)

    @property
    def flops(self) -> int:
        """One addition per element for the bias."""
        return self.count * self.width * self.has_bias

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """numpy's fancy indexing."""
        rows = inputs[1].reshape(self.rows, self.width)[inputs[0].reshape(-1).astype(np.int64)]
        return (rows + inputs[2] if self.has_bias else rows,)


@dataclass(frozen=True, slots=True)
class EmbedBackward(Operator):
    """diff_weights[index[i]] += diff_dst[i]."""

    count: int
    rows: int
    width: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """index, diff_dst."""
        return (Operand("index", (self.count,)), Operand("diff_dst", (self.count, self.width)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_weights."""
        return (Operand("diff_weights", (self.rows, self.width), accumulate=True),)

    @property
    def flops(self) -> int:
        """One addition per element of diff_dst."""
        return self.count * self.width

    @property
    def terms(self) -> int:
        """All indices may be the same."""
        return self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """numpy's unbuffered scatter-add."""
        diff = np.zeros((self.rows, self.width), np.float32)
        index = inputs[0].reshape(-1).astype(np.int64)
        np.add.at(diff, index, inputs[1].reshape(self.count, self.width))
        return (diff,)
