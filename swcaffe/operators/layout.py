"""Moving values without computing: joining and cutting rows. A plain copy joins one array."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from swcaffe.arrays import Array
from swcaffe.operators.base import Operand, Operator

__all__ = ["Concat", "Slice"]


@dataclass(frozen=True, slots=True)
class Concat(Operator):
    """dst (outer, sum of widths) = the sources (outer, widths[i]) side by side."""

    outer: int
    widths: tuple[int, ...]

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src0, src1, …"""
        return tuple(Operand(f"src{i}", (self.outer, w)) for i, w in enumerate(self.widths))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", (self.outer, sum(self.widths))),)

    @property
    def flops(self) -> int:
        """None: it only copies."""
        return 0

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """numpy's concatenate."""
        rows = [a.reshape(self.outer, w) for a, w in zip(inputs, self.widths, strict=True)]
        return (np.concatenate(rows, axis=1),)


@dataclass(frozen=True, slots=True)
class Slice(Operator):
    """The pieces of src (outer, sum of widths) whose numbers are in `wanted`."""

    outer: int
    widths: tuple[int, ...]
    wanted: tuple[int, ...]

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", (self.outer, sum(self.widths))),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst<i> for each wanted i."""
        return tuple(Operand(f"dst{i}", (self.outer, self.widths[i])) for i in self.wanted)

    @property
    def flops(self) -> int:
        """None: it only copies."""
        return 0

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """numpy's slices."""
        src, ends = inputs[0].reshape(self.outer, -1), list(accumulate(self.widths))
        return tuple(src[:, ends[i] - self.widths[i] : ends[i]] for i in self.wanted)
