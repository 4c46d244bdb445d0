"""The largest values along the middle axis of (outer, channels, inner), and where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import Array
from swcaffe.operators.base import Operand, Operator

__all__ = ["TopK"]


@dataclass(frozen=True, slots=True)
class TopK(Operator):
    """dst (outer, k, inner) = the k largest channels, and their numbers (int32), descending.

    Of equal values the one with the larger number comes first: Caffe's order.
    """

    outer: int
    channels: int
    inner: int
    k: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", (self.outer, self.channels, self.inner)),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst, index (int32)."""
        shape = (self.outer, self.k, self.inner)
        return (Operand("dst", shape), Operand("index", shape, "int32"))

    @property
    def flops(self) -> int:
        """Comparisons of a heap of k: log2(k) + 1 per element."""
        return (int(math.log2(self.k)) + 1) * self.outer * self.channels * self.inner

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """A stable sort, read from its end."""
        src = inputs[0].reshape(self.outer, self.channels, self.inner)
        index = np.argsort(src, axis=1, kind="stable")[:, ::-1][:, : self.k]
        return (np.take_along_axis(src, index, axis=1), index.astype(np.int32))
