"""Threshold binary search: between k and 2k elements, without any exact selection (RedSync)."""

from __future__ import annotations

from swcaffe.arrays import F32, I64
from swcaffe.parallel.compressors._sparse import Sparse
from swcaffe.parallel.compressors.base import COMPRESSORS, State, entries_kept
from swcaffe.parallel.selection import binary_search

__all__ = ["ThresholdSearch"]


@COMPRESSORS.register("threshold")
class ThresholdSearch(Sparse):
    """Everything above a threshold found by bisection between mean and largest magnitude."""

    name = "threshold"
    code = 4

    def select(self, flat: F32, state: State) -> I64:
        """See `binary_search`."""
        return binary_search(flat, entries_kept(flat.size, self.density))
