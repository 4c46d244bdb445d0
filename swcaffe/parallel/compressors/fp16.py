"""Half precision with a scale for each run of 1024 elements.

The scale is the power of two that puts the largest magnitude of a run just below 2^15, so neither
1e5 nor 1e-8 is lost: nothing overflows, and only what is 2^-39 of the largest of its run vanishes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from swcaffe.arrays import F32, U8
from swcaffe.parallel.compressors._wire import (
    check_numbers,
    pack,
    refuse,
    unpack,
)
from swcaffe.parallel.compressors.base import COMPRESSORS, Gathering, State
from swcaffe.parallel.selection import check_finite

__all__ = ["HalfPrecision"]

_RUN = 1024
_TOP_EXPONENT = 15
_LARGEST_SHIFT = 164
"""Of 2^-149, the smallest magnitude of float32."""


def _layout(entries: int) -> Sequence[tuple[DTypeLike, int]]:
    return ((np.int16, -(-entries // _RUN)), (np.float16, entries))


@COMPRESSORS.register("fp16")
class HalfPrecision(Gathering):
    """Message: one exponent as int16 for each run, then all values as float16."""

    name = "fp16"
    code = 2

    def encode(self, flat: F32, state: State) -> U8:
        """Scaled and rounded to nearest even."""
        check_finite(flat)
        starts = np.arange(0, flat.size, _RUN)
        largest = np.maximum.reduceat(np.abs(flat), starts)
        shifts = np.where(largest > 0, _TOP_EXPONENT - np.frexp(largest)[1], 0).astype(np.int16)
        halves = np.ldexp(flat, _spread(shifts, flat.size)).astype(np.float16)
        return pack(self.code, flat.size, flat.size, shifts, halves)

    def decode(self, message: U8, out: F32, factor: float = 1.0) -> None:
        """Add the values, scaled back."""
        shifts, halves = unpack(message, self.code, out.size, _layout)
        if (np.abs(shifts.astype(np.int32)) > _LARGEST_SHIFT).any():
            raise refuse(f"a scale beyond 2^{_LARGEST_SHIFT}")
        with np.errstate(over="ignore"):  # an infinity is refused below
            whole = np.ldexp(check_numbers(halves), -_spread(shifts, out.size))
        out += check_numbers(whole) * np.float32(factor)


def _spread(shifts: NDArray[np.int16], count: int) -> NDArray[np.int32]:
    return np.repeat(shifts.astype(np.int32), _RUN)[:count]
