"""Statements and Program: a few frozen node kinds, at two levels.

At mesh level, LDM buffers are tiles dealt over all CPEs. `expand` lowers a program to CPE level,
where ROW and COL are variables and every buffer is one CPE's. Both levels use these nodes; If, Send
and Recv occur at CPE level only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias

from swcaffe.ir.buffer import Buffer, MeshShape, Region
from swcaffe.ir.expr import ZERO, Affine, Slot

if TYPE_CHECKING:
    from swcaffe.ir.intrinsic import Intrinsic

__all__ = [
    "MAX_PARAMS",
    "Alloc",
    "Apply",
    "Bus",
    "Copy",
    "Direction",
    "For",
    "If",
    "Program",
    "Recv",
    "Reply",
    "Send",
    "Seq",
    "Stmt",
    "Wait",
]

MAX_PARAMS = 16
"""Arrays that a program may be called with."""


class Direction(Enum):
    """Which way a DMA copy goes: get fills the LDM, put empties it."""

    GET = "get"
    PUT = "put"


class Bus(Enum):
    """Register buses: ROW joins the CPEs of one row, COL those of one column."""

    ROW = "row"
    COL = "col"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply word, one of several when a double buffer alternates."""

    name: str
    slot: Slot = ZERO

    def __str__(self) -> str:
        """Text: `k` or `k{(k) % 2}`."""
        return self.name if self.slot == ZERO else f"{self.name}{{{self.slot}}}"


@dataclass(frozen=True, slots=True)
class Seq:
    """Statements in order; the scope of its Allocs."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    """body for var = 0 .. extent - 1.

    parallel  iterations are independent: core groups may share them out
    """

    var: str
    extent: int
    body: Seq
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class If:
    """`then` where `zero` is 0, `otherwise` elsewhere; ROW and COL may occur."""

    zero: Affine
    then: Seq
    otherwise: Seq


@dataclass(frozen=True, slots=True)
class Alloc:
    """Storage for a buffer until the enclosing Seq ends; contents undefined."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Copy:
    """Start a DMA copy between an LDM region and a region of main memory.

    axes[d] is the memory axis along which axis d of the LDM region lies; memory axes that are not
    named have extent 1. The LDM region may be touched again after the Wait for `reply`.
    """

    direction: Direction
    ldm: Region
    mem: Region
    axes: tuple[int, ...]
    reply: Reply


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until `count` copies with this reply have completed, and clear the reply word."""

    reply: Reply
    count: int


@dataclass(frozen=True, slots=True)
class Apply:
    """Run an intrinsic on LDM regions."""

    intrinsic: Intrinsic
    args: tuple[Region, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Broadcast a region to the other CPEs of the bus, one vector register a message."""

    bus: Bus
    source: Region


@dataclass(frozen=True, slots=True)
class Recv:
    """Fill a region from the head of the bus's receive queue, in order of arrival."""

    bus: Bus
    target: Region


Stmt: TypeAlias = Seq | For | If | Alloc | Copy | Wait | Apply | Send | Recv


@dataclass(frozen=True, slots=True)
class Program:
    """A computation on one core group's mesh.

    params  main memory buffers in the order in which arrays are passed
    """

    name: str
    mesh: MeshShape
    params: tuple[Buffer, ...]
    body: Seq
    level: Literal["mesh", "cpe"] = "mesh"
