"""Local sums: Add (two equal tiles), Broadcast (a vector along an axis), RowSum (over the rest)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from swcaffe.arrays import Array, Shape
from swcaffe.ir.buffer import Region
from swcaffe.ir.intrinsic import Intrinsic, Work
from swcaffe.machine.spec import Machine

__all__ = ["Add", "Broadcast", "RowSum"]


@dataclass(frozen=True, slots=True)
class Add(Intrinsic):
    """target += source, equal shapes."""

    name: ClassVar[str] = "add"
    c_name: ClassVar[str] = "sw_add"

    def tile(self, *args: Array) -> None:
        """target += source."""
        args[0][...] += args[1]

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Both."""
        return args

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The target."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Two loads and a store a vector, in the pipeline of memory accesses."""
        return Work(cycles=3 * -(-math.prod(sizes[0]) // machine.kernel.lanes))


@dataclass(frozen=True, slots=True)
class Broadcast(Intrinsic):
    """target = source along `axis`, repeated along all other axes; source has that one axis."""

    name: ClassVar[str] = "broadcast"
    c_name: ClassVar[str] = "sw_broadcast"
    axis: int

    def tile(self, *args: Array) -> None:
        """target[...] = source."""
        target, source = args
        target[...] = source.reshape([-1 if d == self.axis else 1 for d in range(target.ndim)])

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The source."""
        return args[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The target."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """One store a vector."""
        return Work(cycles=-(-math.prod(sizes[0]) // machine.kernel.lanes))


@dataclass(frozen=True, slots=True)
class RowSum(Intrinsic):
    """target[i] += sum of source[i, ...], in index order."""

    name: ClassVar[str] = "row_sum"
    c_name: ClassVar[str] = "sw_row_sum"

    def tile(self, *args: Array) -> None:
        """target += source summed over all axes but the first."""
        args[0][...] += args[1].reshape(len(args[1]), -1).sum(axis=1)

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Both."""
        return args

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The target."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """One load and one addition a vector, in different pipelines."""
        return Work(cycles=-(-math.prod(sizes[1]) // machine.kernel.lanes))
