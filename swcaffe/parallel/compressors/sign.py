"""One bit an element and two numbers: the means of what is positive and of what is not.

Seide, Fu, Droppo, Li, Yu, "1-bit stochastic gradient descent", Interspeech 2014: reconstruction by
the mean of each side, which needs the residual.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from swcaffe.arrays import F32, U8
from swcaffe.parallel.compressors._wire import check_numbers, pack, unpack
from swcaffe.parallel.compressors.base import COMPRESSORS, Gathering, State
from swcaffe.parallel.kernels import add_sides, sides
from swcaffe.parallel.selection import check_finite

__all__ = ["OneBit"]


def _layout(entries: int) -> Sequence[tuple[DTypeLike, int]]:
    return ((np.float32, 2), (np.uint8, -(-entries // 8)))


@COMPRESSORS.register("sign")
class OneBit(Gathering):
    """Message: mean of the rest and of the positive elements as float32, then bits."""

    name = "sign"
    code = 7

    def encode(self, flat: F32, state: State) -> U8:
        """Bit i is set where element i is positive."""
        check_finite(flat)
        up, down, many = sides(flat)
        means = np.array([down / max(1, flat.size - many), up / max(1, many)], np.float32)
        return pack(self.code, flat.size, flat.size, means, np.packbits(flat > 0))

    def decode(self, message: U8, out: F32, factor: float = 1.0) -> None:
        """Add one of the two means to every element."""
        means, bits = unpack(message, self.code, out.size, _layout)
        down, up = check_numbers(means) * np.float32(factor)
        add_sides(out, bits, down, up)
