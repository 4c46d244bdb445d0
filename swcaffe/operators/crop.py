"""A block cut out of an array, and the gradient of that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["CropBackward", "CropForward", "CropGeometry"]


@dataclass(frozen=True, slots=True)
class CropGeometry:
    """The block of `dst` elements at `offset` in an array of `src`; one entry per axis."""

    src: Shape
    dst: Shape
    offset: Shape

    @property
    def block(self) -> tuple[slice, ...]:
        """The block as an index."""
        return tuple(slice(o, o + d) for o, d in zip(self.offset, self.dst, strict=True))


@dataclass(frozen=True, slots=True)
class CropForward(Operator):
    """dst = the block of src."""

    geometry: CropGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", self.geometry.src),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", self.geometry.dst),)

    @property
    def flops(self) -> int:
        """None: it only copies."""
        return 0

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One indexed read."""
        return (inputs[0].reshape(self.geometry.src)[self.geometry.block].copy(),)


@dataclass(frozen=True, slots=True)
class CropBackward(Operator):
    """diff_src = diff_dst in the block, 0 around it."""

    geometry: CropGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """diff_dst."""
        return (Operand("diff_dst", self.geometry.dst),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.geometry.src),)

    @property
    def flops(self) -> int:
        """None: it only copies."""
        return 0

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One indexed write."""
        g = self.geometry
        diff = np.zeros(g.src, np.float32)
        diff[g.block] = inputs[0].reshape(g.dst)
        return (diff,)
