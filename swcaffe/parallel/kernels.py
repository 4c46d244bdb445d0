"""Passes over gradients that numpy needs several temporaries for, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["accumulate", "collect_above", "count_above", "magnitudes", "scatter_add"]

_LINE = 64
"""Elements looked at as one: nearly all lines of a sparse selection hold nothing to collect."""


@njit(cache=True, fastmath={"reassoc", "nsz"}, nogil=True)
def magnitudes(values: Any, sign: Any) -> tuple[float, float]:
    """(sum in double precision, largest) of |x|, or of max(0, sign x) where sign is 1 or -1.

    The sum is NaN or infinite exactly when some value is.
    """
    total = 0.0
    largest = np.float32(0)
    if sign == 0:
        for i in range(values.size):
            x = abs(values[i])
            total += x
            largest = x if x > largest else largest
    else:
        for i in range(values.size):
            x = np.float32(sign) * values[i]
            total += x if not x < 0 else x * np.float32(0)
            largest = x if x > largest else largest
    return total, float(largest)


@njit(cache=True, nogil=True)
def count_above(values: Any, sign: Any, threshold: Any) -> int:
    """How many |x| (sign 0) or sign x are above `threshold`, which is not negative."""
    found = 0
    if sign == 0:
        for i in range(values.size):
            found += abs(values[i]) > threshold
    else:
        for i in range(values.size):
            found += np.float32(sign) * values[i] > threshold
    return found


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def collect_above(values: Any, sign: Any, threshold: Any, indices: Any) -> int:
    """Write the places of |x| (sign 0) or sign x above `threshold` in rising order.

    Returns how many there are; only the first `indices.size` of them are written.
    """
    found = 0
    for start in range(0, values.size, _LINE):
        stop = min(start + _LINE, values.size)
        hits = 0
        if sign == 0:
            for i in range(start, stop):
                hits += abs(values[i]) > threshold
        else:
            for i in range(start, stop):
                hits += np.float32(sign) * values[i] > threshold
        if hits:
            for i in range(start, stop):
                x = abs(values[i]) if sign == 0 else np.float32(sign) * values[i]
                if x > threshold:
                    if found < indices.size:
                        indices[found] = i
                    found += 1
    return found


@njit(cache=True, nogil=True)
def scatter_add(out: Any, indices: Any, values: Any) -> None:
    """out[indices] += values; the indices were checked."""
    for i in range(indices.size):
        out[indices[i]] += values[i]


@njit(cache=True, nogil=True)
def accumulate(gradient: Any, velocity: Any, residual: Any, momentum: Any, nesterov: bool) -> None:
    """One step of momentum, and what it would move the weights by added to `residual`."""
    for i in range(gradient.size):
        if nesterov:
            velocity[i] = momentum * (velocity[i] + gradient[i])
            residual[i] += velocity[i] + gradient[i]
        else:
            velocity[i] = momentum * velocity[i] + gradient[i]
            residual[i] += velocity[i]
