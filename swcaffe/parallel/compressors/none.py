"""No compression: the gradient itself, as one dense array to be summed."""

from __future__ import annotations

from collections.abc import Iterator

from swcaffe.arrays import F32, Array
from swcaffe.parallel.compressors.base import COMPRESSORS, State, Summing

__all__ = ["NoCompression"]


@COMPRESSORS.register("none")
class NoCompression(Summing):
    """Sums the gradient."""

    name = "none"

    def steps(self, flat: F32, state: State, total: F32, sent: F32) -> Iterator[Array]:
        """One sum over everything."""
        sent[:] = flat
        total[:] = flat
        yield total
