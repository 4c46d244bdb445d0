"""Random numbers that are functions of (seed, position), not of what was drawn before.

The words of one item are three consecutive outputs of SplitMix64 (Steele, Lea and Flood, "Fast
splittable pseudorandom number generators", OOPSLA 2014): output k of the generator with state
`seed` is mix(seed + (k + 1) * GAMMA), so any of them can be computed directly. Item t owns the
outputs 3t, 3t + 1 and 3t + 2. Nothing has to be saved to resume but t itself.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from swcaffe.arrays import I64
from swcaffe.streams import stream

__all__ = ["U64", "WORDS_PER_ITEM", "derive_seed", "item_words", "permutation"]

U64: TypeAlias = NDArray[np.uint64]

WORDS_PER_ITEM = 3
"""Caffe's draws for one picture, in its order: mirror coin, row offset, column offset."""

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def item_words(seed: int, first: int, count: int) -> U64:
    """Words of items first … first + count - 1, (count, 3)."""
    start = (seed + (WORDS_PER_ITEM * first + 1) * _GAMMA) & _MASK
    steps = np.arange(count * WORDS_PER_ITEM, dtype=np.uint64)
    z = np.uint64(start) + steps * np.uint64(_GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).reshape(count, WORDS_PER_ITEM)


def derive_seed(seed: int, *names: str | int) -> int:
    """A seed, 0 … 2^63 - 1, for one use (a layer's shuffle, its mirror coins) of a run's seed.

    Different names give unrelated streams.
    """
    name = "\0".join(str(part) for part in names)
    return int(stream(seed, name).integers(1 << 63))


def permutation(n: int, seed: int, epoch: int) -> I64:
    """The order of 0 … n-1 in pass number `epoch`, (n,); a function of its arguments alone."""
    return stream(seed, "pass", epoch).permutation(n)
