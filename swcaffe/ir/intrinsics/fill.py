"""Zero: clears a region. ZeroOutside: clears a tile except for its valid part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.ir.buffer import Region
from swcaffe.ir.expr import Affine, Clamp
from swcaffe.ir.intrinsic import Intrinsic, Work
from swcaffe.machine.spec import Machine

__all__ = ["Zero", "ZeroOutside"]


@dataclass(frozen=True, slots=True)
class Zero(Intrinsic):
    """target = 0."""

    name: ClassVar[str] = "zero"
    c_name: ClassVar[str] = "sw_zero"

    def tile(self, *args: Array) -> None:
        """target = 0."""
        args[0][...] = 0

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Nothing."""
        return ()

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The target."""
        return args

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """One store a vector."""
        return Work(cycles=-(-math.prod(sizes[0]) // machine.kernel.lanes))


@dataclass(frozen=True, slots=True)
class ZeroOutside(Intrinsic):
    """Clear what a tile holds outside a region at its origin: lightweight zero padding.

    Arguments: the whole tile, its valid part.
    """

    name: ClassVar[str] = "zero_outside"
    c_name: ClassVar[str] = "sw_zero_outside"

    def tile(self, *args: Array) -> None:
        """Zero where some index lies beyond the valid part."""
        target, valid = args
        keep = np.zeros(target.shape, bool)
        keep[tuple(slice(n) for n in valid.shape)] = True
        target[~keep] = 0

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Nothing."""
        return ()

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """One slab for each axis: beyond the valid part there, inside it on the axes before.

        After expansion the slabs differ between CPEs, and the whole tile stands for them.
        """
        tile, valid = args
        if any(isinstance(size, Clamp) for size in valid.shape):
            return (tile,)
        slabs = []
        for axis, (full, size) in enumerate(zip(tile.sizes, valid.sizes, strict=True)):
            if size < full:
                start = (*tile.start[:axis], Affine(size), *tile.start[axis + 1 :])
                shape = (*valid.sizes[:axis], full - size, *tile.sizes[axis + 1 :])
                slabs.append(replace(tile, start=start, shape=shape))
        return tuple(slabs)

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Stores for the whole tile, as some CPE may hold nothing valid."""
        return Work(cycles=-(-math.prod(sizes[0]) // machine.kernel.lanes))
