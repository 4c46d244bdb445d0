"""Half precision, summed in half precision, with a scale for each run of 1024 elements.

Ranks first sum the largest magnitude of each run, which bounds the magnitude of the run's sum; the
scale is the power of two that puts this bound below 2^15. So neither 1e5 nor 1e-8 is lost: nothing
overflows, also not in sums, and only what is 2^-39 of its run's bound vanishes. The residual keeps
what this rank's rounding lost; additions round, too, by 2^-11 of the sum each, and that is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swcaffe.arrays import F32, Array
from swcaffe.errors import NumericsError
from swcaffe.parallel.compressors.base import COMPRESSORS, State, Summing
from swcaffe.parallel.selection import check_finite

__all__ = ["HalfPrecision"]

_RUN = 1024
_TOP_EXPONENT = 15


@COMPRESSORS.register("fp16")
class HalfPrecision(Summing):
    """Two sums: a bound for each run, then all elements as float16."""

    name = "fp16"

    def steps(self, flat: F32, state: State, total: F32, sent: F32) -> Iterator[Array]:
        """Scaled by what the ranks agreed on, rounded to nearest even."""
        check_finite(flat)
        bounds = np.maximum.reduceat(np.abs(flat), np.arange(0, flat.size, _RUN))
        yield bounds
        if not np.isfinite(bounds).all():
            raise NumericsError(
                "the sum of this gradient over all ranks is beyond float32",
                fix="lower the learning rate, or look for the layer with debug_info",
            )
        shifts = np.where(bounds > 0, _TOP_EXPONENT - np.frexp(bounds)[1], 0)
        halves = _scaled(flat, shifts).astype(np.float16)
        sent[:] = _scaled(halves.astype(np.float32), -shifts)
        yield halves
        total[:] = _scaled(halves.astype(np.float32), -shifts)


def _scaled(flat: F32, shifts: Array) -> F32:
    """flat x 2^shift of its run, in two factors since 2^shift may be beyond float32."""
    half = shifts // 2
    found = flat.copy()
    for part in (half, shifts - half):
        factors = np.ldexp(np.float32(1), part).astype(np.float32)
        whole = flat.size // _RUN * _RUN
        found[:whole].reshape(-1, _RUN)[...] *= factors[: whole // _RUN, None]
        if whole < flat.size:
            found[whole:] *= factors[-1]
    return found
