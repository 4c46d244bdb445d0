"""Exchange states of a run with one number of ranks, dealt to another.

What is left over acts through its mean over the ranks, sum v / P. New rank r takes over old ranks
r, r + P', r + 2 P', … and scales their sum by P' / P, which keeps that mean: nothing offered before
is lost or counted twice. Ranks without a predecessor start with nothing left over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from swcaffe.arrays import Array

__all__ = ["redeal"]

_SUMMED = ("/left", "/velocity")


def redeal(states: Sequence[Mapping[str, Array]], size: int) -> list[dict[str, Array]]:
    """States for `size` ranks from those of all old ranks; the same objects if nothing changes.

    A compressor's own memory (turns, thresholds, directions) is that of old rank 0, for all.
    """
    if size == len(states):
        return [dict(state) for state in states]
    factor = np.float32(size / len(states))
    return [
        {
            key: _joined(states[rank::size], key, value, factor)
            if key.endswith(_SUMMED)
            else value.copy()
            for key, value in states[0].items()
        }
        for rank in range(size)
    ]


def _joined(
    states: Sequence[Mapping[str, Array]], key: str, like: Array, factor: np.float32
) -> Array:
    total = np.zeros_like(like)
    for state in states:
        total += state[key]
    return total * factor
