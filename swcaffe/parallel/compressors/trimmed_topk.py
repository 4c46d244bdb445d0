"""Trimmed top-k: exactly the k largest, for tensors of middle size (RedSync's convolutions)."""

from __future__ import annotations

from swcaffe.arrays import F32, I64
from swcaffe.parallel.compressors._sparse import Sparse
from swcaffe.parallel.compressors.base import COMPRESSORS, State, entries_kept
from swcaffe.parallel.selection import trimmed

__all__ = ["TrimmedTopK"]


@COMPRESSORS.register("topk")
class TrimmedTopK(Sparse):
    """The k = density x size elements of largest magnitude."""

    name = "topk"
    code = 3

    def select(self, flat: F32, state: State) -> I64:
        """See `trimmed`."""
        return trimmed(flat, entries_kept(flat.size, self.density))
