"""How many memory transactions a strided copy touches, in closed form.

A block of L elements that starts at r modulo the transaction length touches ceil((r + L) / line)
of them. Addresses are affine, so the residues of all blocks of a copy, over all iterations of all
loops, are a cyclic convolution of one histogram for each loop and axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from swcaffe.arrays import I64

__all__ = ["Axis", "Blocks", "blocks", "transactions"]

Axis = tuple[int, int, int]
"""Extent, memory stride, LDM stride, in elements."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A copy as its memory sees it.

    length       elements of a block that is contiguous on both sides
    axes         (extent, memory stride) of the axes that lay out the blocks
    descriptors  requests: each takes equal blocks, evenly spaced, contiguous in the LDM
    """

    length: int
    axes: tuple[tuple[int, int], ...]
    descriptors: int


@lru_cache(maxsize=4096)
def blocks(axes: tuple[Axis, ...]) -> Blocks:
    """Blocks of a copy with these axes, outermost first; no extent is 0."""
    merged: list[Axis] = []
    for size, memory, ldm in axes:
        if size == 1:
            continue
        if merged and merged[-1][1:] == (size * memory, size * ldm):
            merged[-1] = (merged[-1][0] * size, memory, ldm)
        else:
            merged.append((size, memory, ldm))
    length = merged.pop()[0] if merged and merged[-1][1:] == (1, 1) else 1
    count = 1
    for size, _, _ in merged:
        count *= size
    if merged and merged[-1][2] == length:
        count //= merged[-1][0]
    return Blocks(length, tuple((size, memory) for size, memory, _ in merged), count)


@lru_cache(maxsize=16384)
def _residues(line: int, extent: int, stride: int) -> I64:
    """How often each residue of stride * i modulo `line` occurs for i < extent."""
    period = line // math.gcd(line, stride % line)
    index = np.arange(period)
    times = extent // period + (index < extent % period)
    result = np.zeros(line, np.int64)
    np.add.at(result, index * stride % line, times)
    return result


@lru_cache(maxsize=16384)
def _histogram(line: int, steps: tuple[tuple[int, int], ...]) -> I64:
    """Residues of the sum of stride * i over all axes (extent, stride modulo `line`)."""
    if not steps:
        start = np.zeros(line, np.int64)
        start[0] = 1
        return start
    head, (extent, stride) = _histogram(line, steps[:-1]), steps[-1]
    if stride == 0:
        repeated: I64 = head * extent
        return repeated
    tail = _residues(line, extent, stride)
    index = np.arange(line)
    result: I64 = tail[(index[:, None] - index[None, :]) % line] @ head
    return result


@lru_cache(maxsize=65536)
def transactions(line: int, length: int, start: int, steps: tuple[tuple[int, int], ...]) -> int:
    """Transactions of `line` elements that all blocks touch together.

    start   first element of the first block, modulo `line`
    steps   (extent, stride modulo `line`) of loops and axes, sorted
    """
    index = (np.arange(line) + start) % line
    return int(_histogram(line, steps) @ -(-(index + length) // line))
