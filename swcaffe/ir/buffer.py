"""Buffers in main memory and in the LDM, how tiles are dealt over the mesh, and regions of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from swcaffe.arrays import Shape
from swcaffe.ir.expr import COL, ROW, ZERO, Affine, Extent, Slot

__all__ = ["Along", "Buffer", "DType", "MeshShape", "Region", "Scope", "VECTOR_BYTES", "strides"]

DType: TypeAlias = Literal["f32", "f64", "i32"]
MeshShape: TypeAlias = tuple[int, int]

VECTOR_BYTES = 32
"""Every LDM slot starts at a multiple of this: vector loads and stores need it."""


class Scope(Enum):
    """Where a buffer lives."""

    MEM = "mem"
    LDM = "ldm"


class Along(Enum):
    """How one axis of a tile is dealt over the mesh, in contiguous blocks of equal length.

    NONE: every CPE has the whole axis. ROW, COL: one block for each row, column of the mesh.
    MESH: one block for each CPE, row by row.
    """

    NONE = "."
    ROW = "row"
    COL = "col"
    MESH = "mesh"

    def ways(self, mesh: MeshShape) -> int:
        """Number of blocks."""
        return {"row": mesh[0], "col": mesh[1], "mesh": mesh[0] * mesh[1]}.get(self.value, 1)

    def index(self, mesh: MeshShape) -> Affine:
        """Number of the block that CPE (ROW, COL) holds."""
        table = {Along.ROW: ROW, Along.COL: COL, Along.MESH: ROW * mesh[1] + COL}
        return table.get(self, ZERO)


def strides(shape: Shape) -> Shape:
    """Row-major strides in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True, slots=True)
class Buffer:
    """A row-major array. In the LDM, a tile over the mesh before expansion, a CPE's block after.

    partition  one entry for each axis of a tile; empty in main memory and after expansion
    slots      copies that a double buffer alternates between; LDM only
    """

    name: str
    shape: Shape
    scope: Scope
    dtype: DType = "f32"
    partition: tuple[Along, ...] = ()
    slots: int = 1

    @property
    def count(self) -> int:
        """Elements of one slot."""
        return math.prod(self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return 8 if self.dtype == "f64" else 4

    def block(self, mesh: MeshShape) -> Shape:
        """Shape of one CPE's part of the tile; axes are multiples of the number of blocks."""
        if not self.partition:
            return self.shape
        pairs = zip(self.shape, self.partition, strict=True)
        return tuple(size // along.ways(mesh) for size, along in pairs)

    def slot_bytes(self, mesh: MeshShape) -> int:
        """LDM bytes of one slot on each CPE, up to the next vector register."""
        size = math.prod(self.block(mesh)) * self.item_bytes
        return -(-size // VECTOR_BYTES) * VECTOR_BYTES

    def block_bytes(self, mesh: MeshShape) -> int:
        """LDM bytes of all slots on each CPE."""
        return self.slot_bytes(mesh) * self.slots


@dataclass(frozen=True, slots=True)
class Region:
    """The box of `shape` elements from `start` on, in one slot of a buffer."""

    buffer: Buffer
    start: tuple[Affine, ...]
    shape: tuple[Extent, ...]
    slot: Slot = ZERO

    @property
    def sizes(self) -> Shape:
        """The shape where it is the same on all CPEs, as it is before expansion."""
        assert all(isinstance(n, int) for n in self.shape), f"{self} differs between CPEs"
        return tuple(n for n in self.shape if isinstance(n, int))

    @property
    def is_whole(self) -> bool:
        """Whether it covers its buffer."""
        return self.shape == self.buffer.shape

    def __str__(self) -> str:
        """Text: `A{(k) % 2}[0:32, 8*i:+8]`."""
        slot = "" if self.buffer.slots == 1 else f"{{{self.slot}}}"
        axes = ", ".join(
            f"{start}:+{size}" if start != ZERO else f":{size}"
            for start, size in zip(self.start, self.shape, strict=True)
        )
        return f"{self.buffer.name}{slot}[{axes}]"
