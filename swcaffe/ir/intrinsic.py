"""Intrinsic: one hardware primitive, its meaning, expansion, cost and C name in one place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from swcaffe.arrays import Array, Shape
from swcaffe.ir.buffer import MeshShape, Region
from swcaffe.ir.expr import largest
from swcaffe.ir.stmt import Apply, Stmt
from swcaffe.machine.spec import Machine

__all__ = ["Intrinsic", "Work"]


@dataclass(frozen=True, slots=True)
class Work:
    """What one call does on the whole mesh; `cycles` are those of the busiest CPE.

    pipeline  which of the two limits it: P0 computes, P1 loads, stores and sends
    """

    cycles: int
    pipeline: Literal["P0", "P1"] = "P1"
    flops: int = 0
    row_messages: int = 0
    col_messages: int = 0


class Intrinsic(ABC):
    """Base of all intrinsics; subclasses are frozen dataclasses, one in each file.

    Arguments are LDM regions: parts of tiles before expansion, of one CPE's blocks after it.
    """

    __slots__ = ()

    name: ClassVar[str]
    c_name: ClassVar[str]

    @abstractmethod
    def tile(self, *args: Array) -> None:
        """The meaning, on numpy views of the regions."""

    @abstractmethod
    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Regions that must have been written before."""

    @abstractmethod
    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Regions written."""

    def refuse(self, args: tuple[Region, ...], machine: Machine) -> str | None:
        """Why these regions do not fit the primitive, or None."""
        return None

    def expand(self, args: tuple[Region, ...], blocks: tuple[Region, ...], mesh: MeshShape) -> Stmt:
        """What each CPE runs, given its parts of the regions; local work stays as it is."""
        return Apply(self, blocks)

    @abstractmethod
    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Cost of a call after expansion, from the regions' sizes on the fullest CPE."""

    @staticmethod
    def sizes(args: tuple[Region, ...]) -> tuple[Shape, ...]:
        """Sizes of the regions on the fullest CPE."""
        return tuple(tuple(largest(extent) for extent in region.shape) for region in args)
