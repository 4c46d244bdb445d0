"""Passes over gradients that numpy needs several temporaries for, compiled.

The selections read floats as integers: bits of non-negative floats are ordered as the numbers are,
and those of infinities and NaN lie above all others. `(bits & mask) ^ flip` is the key of an
element: its magnitude with mask 2^31 - 1 and flip 0, itself or its negative with mask -1 and flip
0 or -2^31; a key that is not positive stands for an element of the wrong sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = [
    "accumulate",
    "add_sides",
    "collect_above",
    "count_above",
    "magnitudes",
    "scatter_add",
    "sides",
]

_LINE = 64
"""Elements looked at as one: nearly all lines of a sparse selection hold nothing to collect."""


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def magnitudes(values: Any, bits: Any, mask: Any, flip: Any) -> Any:
    """(sum of positive keys as numbers, largest key, largest bits of a magnitude).

    values, bits  one array, as float32 and as int32
    """
    total: Any = 0.0
    top, widest = np.int32(0), np.int32(0)
    whole = values.size // _LINE * _LINE
    for start in range(0, whole, _LINE):
        line, numbers = bits[start : start + _LINE], values[start : start + _LINE]
        part: Any = 0.0
        for j in range(_LINE):
            part += abs(numbers[j]) if ((line[j] & mask) ^ flip) > 0 else np.float32(0)
        total += part
        for j in range(_LINE):
            top = max(top, (line[j] & mask) ^ flip)
            widest = max(widest, line[j] & np.int32(0x7FFFFFFF))
    for i in range(whole, values.size):
        key = (bits[i] & mask) ^ flip
        total += abs(values[i]) if key > 0 else np.float32(0)
        top = max(top, key)
        widest = max(widest, bits[i] & np.int32(0x7FFFFFFF))
    return total, top, widest


@njit(cache=True, nogil=True)
def count_above(bits: Any, mask: Any, flip: Any, least: Any) -> Any:
    """How many keys are greater than `least`."""
    found = 0
    for i in range(bits.size):
        found += ((bits[i] & mask) ^ flip) > least
    return found


@njit(cache=True, nogil=True)
def collect_above(bits: Any, mask: Any, flip: Any, least: Any, indices: Any) -> Any:
    """Write the places of keys greater than `least` in rising order.

    Returns how many there are, or, as soon as they are too many for `indices`, a greater number.
    """
    found = 0
    whole = bits.size // _LINE * _LINE
    for start in range(0, whole, _LINE):
        line = bits[start : start + _LINE]
        hit = False
        for j in range(_LINE):
            hit |= ((line[j] & mask) ^ flip) > least
        if hit:
            found = _collect(line, start, mask, flip, least, indices, found)
            if found > indices.size:
                return found
    return _collect(bits[whole:], whole, mask, flip, least, indices, found)


@njit(cache=True, nogil=True)
def _collect(
    line: Any, start: Any, mask: Any, flip: Any, least: Any, indices: Any, found: Any
) -> Any:
    for j in range(line.size):
        if ((line[j] & mask) ^ flip) > least:
            if found < indices.size:
                indices[found] = start + j
            found += 1
    return found


@njit(cache=True, nogil=True)
def scatter_add(out: Any, indices: Any, values: Any) -> None:
    """out[indices] += values; the indices were checked."""
    for i in range(indices.size):
        out[indices[i]] += values[i]


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def sides(values: Any) -> Any:
    """(sum of positive elements, sum of the others, how many are positive)."""
    up: Any = 0.0
    down: Any = 0.0
    many = 0
    for i in range(values.size):
        positive = values[i] > 0
        up += values[i] if positive else np.float32(0)
        down += np.float32(0) if positive else values[i]
        many += positive
    return up, down, many


@njit(cache=True, nogil=True)
def add_sides(out: Any, bits: Any, down: Any, up: Any) -> None:
    """out += `up` where a bit is set, `down` elsewhere; bits as numpy packs them."""
    for byte in range(bits.size):
        packed = bits[byte]
        for j in range(min(8, out.size - 8 * byte)):
            out[8 * byte + j] += up if (packed >> (7 - j)) & 1 else down


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
