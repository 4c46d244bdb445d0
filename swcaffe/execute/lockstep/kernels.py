"""Leaves of the mesh executor: one call moves or computes on every CPE, and counts what it did.

LDM contents are (cpes, words) float32, seen as (cpes, words / 2) float64 where a buffer holds
doubles; `state` has a byte for each word. Boxes have four axes: extents (cpes, 4), as a tile may
fill some CPEs in part, and strides (4,) that all CPEs share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.execute.compiled import leaf

__all__ = [
    "ARRIVING",
    "LEAVING",
    "UNWRITTEN",
    "WRITTEN",
    "add",
    "broadcast",
    "channel_sum",
    "claim",
    "clear",
    "clear_outside",
    "first_not",
    "move",
    "rlc_gemm",
    "row_sum",
    "widen",
]

UNWRITTEN, WRITTEN, ARRIVING, LEAVING = 0, 1, 2, 3
"""States of an LDM word: undefined; readable; target of a copy under way; source of one.

Bit 0 says that it may be read, bit 1 that it may not be written.
"""


@leaf
def _rows(extents: Any, strides: Any) -> tuple[int, int, int, int]:
    """(n0, n1, n2, length): a box as rows of elements without gaps, as few and long as they go."""
    n0, n1, n2, length = extents[0], extents[1], extents[2], extents[3]
    if n0 * n1 * n2 * length == 0:
        return 0, 0, 0, 0
    if n2 == 1 or strides[2] == length:
        length, n2 = length * n2, 1
        if n1 == 1 or strides[1] == length:
            length, n1 = length * n1, 1
            if n0 == 1 or strides[0] == length:
                length, n0 = length * n0, 1
    return n0, n1, n2, length


@leaf
def first_not(
    state: Any, octets: Any, at: int, extents: Any, strides: Any, words: int, mask: int, wanted: int
) -> Any:
    """The first CPE with a word of the box whose state & mask is not `wanted`, or -1.

    octets are the states eight at a time; the last axis of a box has no gaps.
    """
    many = np.uint64(0x0101010101010101)
    mask8, wanted8 = np.uint64(mask) * many, np.uint64(wanted) * many
    for cpe in range(state.shape[0]):
        n0, n1, n2, length = _rows(extents[cpe], strides)
        for i in range(n0):
            for j in range(n1):
                for k in range(n2):
                    first = (at + i * strides[0] + j * strides[1] + k * strides[2]) * words
                    last = first + length * words
                    head = min(-(-first // 8) * 8, last)
                    tail = max(head, last // 8 * 8)
                    bad = np.uint64(0)
                    for x in range(first, head):
                        bad |= np.uint64((state[cpe, x] & mask) ^ wanted)
                    for x in range(head // 8, tail // 8):
                        bad |= (octets[cpe, x] & mask8) ^ wanted8
                    for x in range(tail, last):
                        bad |= np.uint64((state[cpe, x] & mask) ^ wanted)
                    if bad:
                        return cpe
    return -1


@leaf
def claim(state: Any, at: int, extents: Any, strides: Any, words: int, value: int) -> None:
    """Give every word of the box a state."""
    for cpe in range(state.shape[0]):
        n0, n1, n2, length = _rows(extents[cpe], strides)
        for i in range(n0):
            for j in range(n1):
                for k in range(n2):
                    row = (at + i * strides[0] + j * strides[1] + k * strides[2]) * words
                    state[cpe, row : row + length * words] = np.uint8(value)


@leaf
def move(
    memory: Any,
    starts: Any,
    memory_strides: Any,
    ldm: Any,
    at: int,
    ldm_strides: Any,
    extents: Any,
    get: bool,
    line: int,
    counts: Any,
) -> None:
    """One DMA copy of each CPE.

    counts (cpes, 3): elements, transactions of `line` elements, descriptors are added.
    A block is a stretch that is contiguous on both sides. A descriptor is a sequence of equal
    blocks, contiguous in the LDM and evenly spaced in memory.
    """
    for cpe in range(ldm.shape[0]):
        e = extents[cpe]
        if e[0] * e[1] * e[2] * e[3] == 0:
            continue
        block, length, ldm_end = -1, 0, -1
        last, last_length, spacing, last_ldm_end = -1, 0, -1, -1
        for i in range(e[0]):
            for j in range(e[1]):
                for k in range(e[2]):
                    m0 = starts[cpe] + i * memory_strides[0] + j * memory_strides[1]
                    m0 += k * memory_strides[2]
                    t0 = at + i * ldm_strides[0] + j * ldm_strides[1] + k * ldm_strides[2]
                    for x in range(e[3]):
                        m, t = m0 + x * memory_strides[3], t0 + x * ldm_strides[3]
                        if get:
                            ldm[cpe, t] = memory[m]
                        else:
                            memory[m] = ldm[cpe, t]
                        if length > 0 and m == block + length and t == ldm_end:
                            length += 1
                            ldm_end += 1
                            continue
                        if length > 0:
                            counts[cpe, 1] += (block + length - 1) // line - block // line + 1
                            even = last_length == length and last_ldm_end == ldm_end - length
                            if even and (spacing == -1 or spacing == block - last):
                                spacing = block - last
                            else:
                                counts[cpe, 2] += 1
                                spacing = -1
                            last, last_length, last_ldm_end = block, length, ldm_end
                        block, length, ldm_end = m, 1, t + 1
        counts[cpe, 1] += (block + length - 1) // line - block // line + 1
        even = last_length == length and last_ldm_end == ldm_end - length
        if not (even and (spacing == -1 or spacing == block - last)):
            counts[cpe, 2] += 1
        counts[cpe, 0] += e[0] * e[1] * e[2] * e[3]


@leaf
def clear(ldm: Any, at: int, extents: Any, strides: Any) -> None:
    """Zero a box."""
    for cpe in range(ldm.shape[0]):
        e = extents[cpe]
        for i in range(e[0]):
            for j in range(e[1]):
                for k in range(e[2]):
                    row = at + i * strides[0] + j * strides[1] + k * strides[2]
                    for x in range(e[3]):
                        ldm[cpe, row + x * strides[3]] = np.float32(0)


@leaf
def clear_outside(ldm: Any, at: int, extents: Any, strides: Any, valid: Any) -> None:
    """Zero a box except for its first `valid` (cpes, 4) elements on every axis."""
    for cpe in range(ldm.shape[0]):
        e, v = extents[cpe], valid[cpe]
        for i in range(e[0]):
            for j in range(e[1]):
                for k in range(e[2]):
                    row = at + i * strides[0] + j * strides[1] + k * strides[2]
                    inside = i < v[0] and j < v[1] and k < v[2]
                    for x in range(v[3] if inside else 0, e[3]):
                        ldm[cpe, row + x * strides[3]] = np.float32(0)


@leaf
def widen(
    doubles: Any, target: int, ldm: Any, source: int, rows: int, cols: int, swap: bool
) -> None:
    """target = source (rows, cols) as doubles, transposed with `swap`."""
    for cpe in range(ldm.shape[0]):
        for i in range(rows):
            for j in range(cols):
                to = j * rows + i if swap else i * cols + j
                doubles[cpe, target + to] = np.float64(ldm[cpe, source + i * cols + j])


@leaf
def _send(
    row_bus: Any, col_bus: Any, doubles: Any, a: int, a_row: int, b: int, step: int, counts: Any
) -> None:
    """Fill the receive queues: column `step` sends numbers of A, row `step` vectors of B."""
    rows, tile_m, lanes = row_bus.shape
    cols, tile_n = col_bus.shape
    for r in range(rows):
        for i in range(tile_m):
            row_bus[r, i, :] = doubles[r * cols + step, a + i * a_row]
            counts[0] += 1
    for q in range(cols):
        for vector in range(0, tile_n, lanes):
            for x in range(vector, vector + lanes):
                col_bus[q, x] = doubles[step * cols + q, b + x]
            counts[1] += 1


@leaf
def _multiply(sums: Any, row_bus: Any, col_bus: Any) -> None:
    """Every CPE takes what its two queues hold and adds all products to its register tile."""
    for r in range(row_bus.shape[0]):
        for q in range(col_bus.shape[0]):
            for i in range(row_bus.shape[1]):
                left = row_bus[r, i, 0]
                for x in range(col_bus.shape[1]):
                    sums[r, q, i, x] += left * col_bus[q, x]


@leaf
def rlc_gemm(
    ldm: Any,
    c: int,
    doubles: Any,
    a: int,
    b: int,
    sizes: Any,
    step: int,
    trans_a: bool,
    accumulate: bool,
    mesh: Any,
    tile: Any,
    lanes: int,
    counts: Any,
) -> None:
    """C (m, n) += A B over the buses, on every CPE. counts: += row and column messages, flops.

    sizes m, n, k of the blocks; mesh rows, cols; tile rows and columns in registers. At each k the
    senders fill the receive queues with one register tile's operands, which all CPEs then consume.
    """
    m, n, depth = sizes
    rows, cols = mesh
    tile_m, tile_n = tile
    row_bus = np.zeros((rows, tile_m, lanes))
    col_bus = np.zeros((cols, tile_n))
    sums = np.zeros((rows, cols, tile_m, tile_n))
    registers = sums.reshape(rows * cols, tile_m, tile_n)
    a_row, a_k = (1, m) if trans_a else (depth, 1)
    for i0 in range(0, m, tile_m):
        for j0 in range(0, n, tile_n):
            for cpe in range(rows * cols):
                for i in range(tile_m):
                    at = c + (i0 + i) * n + j0
                    for j in range(tile_n):
                        registers[cpe, i, j] = ldm[cpe, at + j] if accumulate else 0.0
            for k in range(depth):
                first = a + i0 * a_row + k * a_k
                _send(row_bus, col_bus, doubles, first, a_row, b + k * n + j0, step, counts)
                _multiply(sums, row_bus, col_bus)
                counts[2] += 2 * sums.size
            for cpe in range(rows * cols):
                for i in range(tile_m):
                    at = c + (i0 + i) * n + j0
                    for j in range(tile_n):
                        ldm[cpe, at + j] = np.float32(registers[cpe, i, j])


@leaf
def broadcast(ldm: Any, target: int, source: int, outer: int, n: int, inner: int) -> None:
    """target (outer, n, inner) = source (n)."""
    for cpe in range(ldm.shape[0]):
        for i in range(outer):
            for j in range(n):
                at = target + (i * n + j) * inner
                for x in range(inner):
                    ldm[cpe, at + x] = ldm[cpe, source + j]


@leaf
def add(
    ldm: Any, target: int, target_strides: Any, source: int, source_strides: Any, extents: Any
) -> None:
    """target += source: float registers round after every sum, as the sum of floats does."""
    for cpe in range(ldm.shape[0]):
        e = extents[cpe]
        for i in range(e[0]):
            for j in range(e[1]):
                for k in range(e[2]):
                    s = source + i * source_strides[0] + j * source_strides[1]
                    t = target + i * target_strides[0] + j * target_strides[1]
                    s += k * source_strides[2]
                    t += k * target_strides[2]
                    for x in range(e[3]):
                        ldm[cpe, t + x * target_strides[3]] += ldm[cpe, s + x * source_strides[3]]


@leaf
def row_sum(ldm: Any, target: int, source: int, extents: Any, strides: Any) -> None:
    """target (m) += source (m, g, n) summed in double; axes 1 to 3 of the box."""
    for cpe in range(ldm.shape[0]):
        e = extents[cpe]
        for i in range(e[1]):
            total = np.float64(ldm[cpe, target + i])
            for j in range(e[2]):
                at = source + i * strides[1] + j * strides[2]
                for x in range(e[3]):
                    total += ldm[cpe, at + x * strides[3]]
            ldm[cpe, target + i] = np.float32(total)


@leaf
def channel_sum(
    ldm: Any, target: int, source: int, extents: Any, strides: Any, channel: int
) -> None:
    """target[c] += the sum in double over all axes of a box but `channel`."""
    for cpe in range(ldm.shape[0]):
        e = extents[cpe].copy()
        channels = e[channel]
        e[channel] = 1
        for c in range(channels):
            first = source + c * strides[channel]
            total = np.float64(ldm[cpe, target + c])
            for i in range(e[0]):
                for j in range(e[1]):
                    for k in range(e[2]):
                        at = first + i * strides[0] + j * strides[1] + k * strides[2]
                        for x in range(e[3]):
                            total += ldm[cpe, at + x * strides[3]]
            ldm[cpe, target + c] = np.float32(total)
