"""Random-k: places drawn alike on all ranks, so that only values travel and are summed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swcaffe.arrays import F32, I64, Array, Shape
from swcaffe.parallel.compressors.base import COMPRESSORS, State, Summing, entries_kept
from swcaffe.parallel.selection import check_finite
from swcaffe.streams import stream

__all__ = ["RandomK"]


@COMPRESSORS.register("randomk")
class RandomK(Summing):
    """k = density x size places, a function of (seed, tensor, iteration) alone.

    State: `draws` (int64), the iterations before; `name` (uint8), the tensor's name in UTF-8.
    """

    name = "randomk"

    def new_state(self, shape: Shape, name: str = "") -> State:
        """Nothing drawn yet."""
        return {
            "draws": np.zeros((), np.int64),
            "name": np.frombuffer(name.encode(), np.uint8).copy(),
        }

    def steps(self, flat: F32, state: State, total: F32, sent: F32) -> Iterator[Array]:
        """One sum, over the values at the places drawn."""
        check_finite(flat)
        state["draws"] = state["draws"] + 1
        places = self.places(state, flat.size)
        values = flat[places]
        sent[:] = 0
        sent[places] = values
        yield values
        total[:] = 0
        total[places] = values

    def places(self, state: State, count: int) -> I64:
        """The places of the latest draw, rising."""
        name = state["name"].tobytes().decode()
        draw = stream(self.seed, f"randomk/{name}", int(state["draws"]))
        kept = entries_kept(count, self.density)
        return np.sort(draw.choice(count, kept, replace=False)).astype(np.int64)
