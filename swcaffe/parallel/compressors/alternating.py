"""Alternating-sign quantisation: many elements of one sign, and one number for all of them.

Odd iterations send the k largest values, even ones the k most negative, so that a mean can stand
for each: [length, indices, mean] (RedSync, JPDC 2019). The residual must lose the mean, not the
values, which it does by decoding the message. Not for the output layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from swcaffe.arrays import F32, I64, U8, Array, Shape
from swcaffe.parallel.compressors._wire import check_indices, check_numbers, pack, unpack
from swcaffe.parallel.compressors.base import COMPRESSORS, Gathering, State, entries_kept
from swcaffe.parallel.selection import trimmed

__all__ = ["AlternatingSign"]


def _layout(entries: int) -> Sequence[tuple[DTypeLike, int]]:
    return ((np.uint32, entries), (np.float32, 1))


@COMPRESSORS.register("asq")
class AlternatingSign(Gathering):
    """Message: indices as uint32, rising; their mean as float32. State: `turn` (int64)."""

    name = "asq"
    code = 6

    def new_state(self, shape: Shape, name: str = "") -> State:
        """The first turn sends positive values."""
        return {"turn": np.zeros((), np.int64)}

    def encode(self, flat: F32, state: State) -> U8:
        """Places of one sign and their mean; none if nothing has that sign."""
        turn = int(state["turn"])
        sign = -1 if turn % 2 else 1
        places = trimmed(flat, entries_kept(flat.size, self.density), sign)
        state["turn"] = np.array(turn + 1, np.int64)
        mean = flat[places].mean(dtype=np.float64) if places.size else 0.0
        values = np.array([mean], np.float32)
        return pack(self.code, flat.size, places.size, places.astype(np.uint32), values)

    def decode(self, message: U8, out: F32, factor: float = 1.0) -> None:
        """Add the mean at every place."""
        places, mean = self._parts(message, out.size)
        out[places] += check_numbers(mean)[0] * np.float32(factor)

    def sent(self, message: U8, count: int) -> I64:
        """The places."""
        return self._parts(message, count)[0]

    def _parts(self, message: U8, count: int) -> tuple[I64, Array]:
        indices, mean = unpack(message, self.code, count, _layout)
        return check_indices(indices, count), mean
