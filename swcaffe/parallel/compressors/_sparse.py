"""Base of compressors that send some elements as they are, with their places."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from swcaffe.arrays import F32, I64, U8, Array
from swcaffe.parallel.compressors._wire import check_indices, check_numbers, pack, unpack
from swcaffe.parallel.compressors.base import Gathering, State
from swcaffe.parallel.kernels import scatter_add

__all__ = ["Sparse"]


def _layout(entries: int) -> Sequence[tuple[DTypeLike, int]]:
    return ((np.uint32, entries), (np.float32, entries))


class Sparse(Gathering):
    """Message: indices as uint32, rising; values as float32."""

    @abstractmethod
    def select(self, flat: F32, state: State) -> I64:
        """Places to send, rising; NumericsError if an element of `flat` is not finite."""

    def encode(self, flat: F32, state: State) -> U8:
        """Selected places and what stands there."""
        places = self.select(flat, state)
        values = flat[places]
        return pack(self.code, flat.size, places.size, places.astype(np.uint32), values)

    def decode(self, message: U8, out: F32, factor: float = 1.0) -> None:
        """Add the values at their places."""
        indices, values = self._parts(message, out.size)
        scatter_add(out, indices, check_numbers(values) * np.float32(factor))

    def sent(self, message: U8, count: int) -> I64:
        """The places."""
        return self._parts(message, count)[0]

    def _parts(self, message: U8, count: int) -> tuple[I64, Array]:
        indices, values = unpack(message, self.code, count, _layout)
        return check_indices(indices, count), values
