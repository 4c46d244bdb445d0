"""What a run did, in order: copies issued, waits, kernels; amounts as they happened, no times.

The mesh executor writes these events, the cost model turns them into a time line; neither knows
the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from swcaffe.arrays import Shape
from swcaffe.ir.intrinsic import Intrinsic

__all__ = ["CopyEvent", "Event", "KernelEvent", "Join", "WaitEvent"]

Word: TypeAlias = tuple[str, int]
"""A reply word: name and slot."""


@dataclass(slots=True)
class CopyEvent:
    """A DMA copy of a core group: issued here; amounts are filled in as it completes.

    most_transactions, most_descriptors  of the CPE that has most of them
    """

    core_group: int
    statement: str
    word: Word
    get: bool
    elements: int = 0
    transactions: int = 0
    descriptors: int = 0
    most_transactions: int = 0
    most_descriptors: int = 0


@dataclass(frozen=True, slots=True)
class WaitEvent:
    """A core group waits for all copies with a reply word."""

    core_group: int
    statement: str
    word: Word


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """All CPEs of a core group run an intrinsic; sizes of its regions on the fullest CPE."""

    core_group: int
    statement: str
    intrinsic: Intrinsic
    sizes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """All core groups wait for each other: before and behind a parallel loop."""


Event: TypeAlias = CopyEvent | WaitEvent | KernelEvent | Join
