"""Compiled leaves of the tile executor, and the interpreter that calls them.

One interpreter, compiled once, runs every program: `flatten` turns a program into rows of integers,
described there. Arrays are flat float32: parameters, shared scratch, private scratch, and the LDM
of the mesh as one array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.execute.codes import (
    ADD,
    ADDRESS,
    ADDRESS_SIZE,
    AVE_POOL,
    BROADCAST,
    CHANNEL_SUM,
    COL2IM,
    COPY,
    DEPTH,
    END,
    FILL,
    GEMM,
    IM2COL,
    LOOP,
    MAP,
    MAX_POOL,
    MAX_POOL_GRADIENT,
    OPERANDS_PER_ROW,
    PANEL_GEMM,
    PANEL_IM2COL,
    ROW_SUM,
)
from swcaffe.execute.compiled import leaf, regrouped_leaf
from swcaffe.execute.rows import clear, move
from swcaffe.execute.vectors import evaluate
from swcaffe.execute.windows import (
    ave_pool,
    ave_pool_gradient,
    col2im,
    im2col,
    max_pool,
    max_pool_gradient,
    panel_im2col,
)
from swcaffe.kernels import (
    COLS,
    DOT_COLS,
    DOT_ROWS,
    ROWS,
    WIDTH,
    dot_tile,
    outer_tile,
    pack_rows,
    sgemm_leaf,
)

__all__ = ["run"]

A_ROWS = 16 * ROWS
"""Rows of A packed at once beside B in panels."""
DOT_DEPTH = 2048
"""Steps of k walked at once by dot products: their rows then stay in the first-level cache."""


@leaf
def _address(row: Any, number: int, variables: Any) -> Any:
    """Element offset of operand `number` for the current loop values."""
    at = ADDRESS + number * ADDRESS_SIZE
    total = row[at + 1]
    for d in range(DEPTH):
        total += row[at + 2 + d] * variables[d]
    modulus = row[at + 2 + DEPTH]
    if modulus > 0:
        slot = row[at + 4 + DEPTH]
        for d in range(DEPTH):
            slot += row[at + 5 + DEPTH + d] * variables[d]
        total += slot % modulus * row[at + 3 + DEPTH]
    return total


@leaf
def _copy(source: Any, s: int, target: Any, t: int, p: Any) -> None:
    """Copy a box of up to four axes; p: extents, source strides, target strides."""
    n, s3, t3 = p[3], p[7], p[11]
    for i in range(p[0]):
        for j in range(p[1]):
            for k in range(p[2]):
                a = s + i * p[4] + j * p[5] + k * p[6]
                b = t + i * p[8] + j * p[9] + k * p[10]
                if s3 == 1 and t3 == 1:
                    move(target.ctypes.data + 4 * b, source.ctypes.data + 4 * a, n)
                else:
                    for x in range(n):
                        target[b + x * t3] = source[a + x * s3]


@leaf
def _fill(target: Any, t: int, p: Any) -> None:
    """Clear a box of up to four axes; p: extents, -, strides."""
    for i in range(p[0]):
        for j in range(p[1]):
            for k in range(p[2]):
                b = t + i * p[8] + j * p[9] + k * p[10]
                if p[11] == 1:
                    target[b : b + p[3]] = np.float32(0)
                else:
                    for x in range(p[3]):
                        target[b + x * p[11]] = np.float32(0)


@leaf
def _add(target: Any, t: int, source: Any, s: int, p: Any) -> None:
    """Add a box of up to four axes to another; p: extents, source strides, target strides."""
    for i in range(p[0]):
        for j in range(p[1]):
            for k in range(p[2]):
                a = s + i * p[4] + j * p[5] + k * p[6]
                b = t + i * p[8] + j * p[9] + k * p[10]
                for x in range(p[3]):
                    target[b + x * p[11]] += source[a + x * p[7]]


@leaf
def _broadcast(target: Any, t: int, source: Any, s: int, p: Any) -> None:
    """target (outer, n, inner) = source (n)."""
    outer, n, inner = p[0], p[1], p[2]
    for i in range(outer):
        for j in range(n):
            at = t + (i * n + j) * inner
            target[at : at + inner] = source[s + j]


@regrouped_leaf
def _row_sum(target: Any, t: int, source: Any, s: int, p: Any) -> None:
    """target (m) += source (m, g, n) summed; p: m, g, n, and the first two strides of source.

    Rows are summed in as many parts as a vector has lanes: one by one would wait for every sum.
    """
    for i in range(p[0]):
        total = np.float32(0)
        for j in range(p[1]):
            at = s + i * p[3] + j * p[4]
            part = np.float32(0)
            for x in range(p[2]):
                part += source[at + x]
            total += part
        target[t + i] += total


@leaf
def _panel_gemm(c: Any, c0: int, a: Any, a0: int, b: Any, b0: int, p: Any) -> None:
    """_gemm with B in panels of COLS columns; writes C up to the end of its last panel."""
    m, n, k, c_row = p[0], p[1], p[2], p[7]
    packed = np.empty(min(m, A_ROWS) * k, np.float32)
    panels, out = b.ctypes.data + 4 * b0, c.ctypes.data + 4 * c0
    for m0 in range(0, m, A_ROWS):
        height = min(A_ROWS, m - m0)
        pack_rows(a[a0 + m0 * p[3] :], height, k, p[3], p[4], packed)
        for j in range(0, n, COLS):
            for i in range(0, height, ROWS):
                rows = min(ROWS, height - i)
                left = packed.ctypes.data + 4 * i * k
                target = out + 4 * ((m0 + i) * c_row + j)
                outer_tile(rows, k, left, panels + 4 * j * k, target, c_row, p[8])


@leaf
def _dot_products(c: Any, c0: int, a: Any, a0: int, b: Any, b0: int, p: Any) -> None:
    """C += A B.T where the rows of A and of B are contiguous; p as in _gemm, k at least WIDTH."""
    m, n, k, a_row, b_row, c_row = p[0], p[1], p[2], p[3], p[6], p[7]
    tile = np.empty(DOT_ROWS * DOT_COLS, np.float32)
    left, right, out = a.ctypes.data + 4 * a0, b.ctypes.data + 4 * b0, tile.ctypes.data
    k0 = 0
    while k0 < k:
        depth = min(DOT_DEPTH, k - k0)
        if 0 < k - k0 - depth < WIDTH:
            depth -= WIDTH
        for j0 in range(0, n, DOT_COLS):
            cols = min(DOT_COLS, n - j0)
            for i0 in range(0, m, DOT_ROWS):
                rows = min(DOT_ROWS, m - i0)
                x, y = left + 4 * (i0 * a_row + k0), right + 4 * (j0 * b_row + k0)
                dot_tile(rows, cols, depth, x, a_row, y, b_row, out)
                for i in range(rows):
                    for j in range(cols):
                        c[c0 + (i0 + i) * c_row + j0 + j] += tile[i * DOT_COLS + j]
        k0 += depth


@leaf
def _gemm(c: Any, c0: int, a: Any, a0: int, b: Any, b0: int, p: Any) -> None:
    """C = or += A B; p: m, n, k, strides of A and B, row stride of C, accumulate."""
    if p[8] == 0:
        for i in range(p[0]):
            clear(c.ctypes.data + 4 * (c0 + i * p[7]), p[1])
    if p[4] == 1 and p[5] == 1 and p[6] != 1 and p[2] >= WIDTH:
        _dot_products(c, c0, a, a0, b, b0, p)
    else:
        sgemm_leaf(p[0], p[1], p[2], a[a0:], p[3], p[4], b[b0:], p[5], p[6], c[c0:], p[7])


@regrouped_leaf
def _channel_sum(target: Any, t: int, source: Any, s: int, p: Any) -> None:
    """target[c] += sum over two axes; p: (extent, stride) of the channels and of the others."""
    if p[1] == 1:
        for i in range(p[2]):
            for j in range(p[4]):
                at = s + i * p[3] + j * p[5]
                for c in range(p[0]):
                    target[t + c] += source[at + c]
        return
    for c in range(p[0]):
        total = np.float32(0)
        for i in range(p[2]):
            at = s + c * p[1] + i * p[3]
            part = np.float32(0)
            if p[5] == 1:
                for x in range(p[4]):
                    part += source[at + x]
            else:
                for x in range(p[4]):
                    part += source[at + x * p[5]]
            total += part
        target[t + c] += total


@leaf
def _map(code: Any, at: int, variables: Any, arrays: Any, tables: Any) -> int:
    """Vector code on the operands of the rows from `at` on; how many rows these are."""
    count: int = code[at, 1]
    operands = np.empty(count, np.int64)
    for operand in range(count):
        row, place = code[at + operand // OPERANDS_PER_ROW], operand % OPERANDS_PER_ROW
        array = arrays[row[ADDRESS + place * ADDRESS_SIZE]]
        operands[operand] = array.ctypes.data + 4 * _address(row, place, variables)
    evaluate(operands, code[at, 3:6], tables[code[at, 2] :])
    return -(-count // OPERANDS_PER_ROW)


@leaf
def _pool(op: int, x: Any, i: int, y: Any, j: int, z: Any, k: int, p: Any) -> None:
    """The four poolings."""
    if op == MAX_POOL:
        max_pool(x, i, y, j, z, k, p)
    elif op == MAX_POOL_GRADIENT:
        max_pool_gradient(x, i, y, j, z, k, p)
    elif op == AVE_POOL:
        ave_pool(x, i, y, j, p)
    else:
        ave_pool_gradient(x, i, y, j, p)


@leaf
def run(code: Any, first: int, last: int, low: int, high: int, arrays: Any, tables: Any) -> None:
    """Interpret rows first .. last - 1 of a program.

    low, high  iterations of a parallel loop at `first` that are ours; ignored by other loops
    arrays     flat arrays that operands name by number
    tables     vector code of all maps
    """
    variables = np.zeros(DEPTH, np.int64)
    at = first
    while at < last:
        row = code[at]
        op = row[0]
        p = row[1:ADDRESS]
        if op == LOOP:
            variables[p[0]] = low if p[2] == 1 else 0
            at += 1
            continue
        if op == END:
            variables[p[0]] += 1
            end = high if p[2] == 1 else p[1]
            at = p[3] if variables[p[0]] < end else at + 1
            continue
        if op == MAP:
            at += _map(code, at, variables, arrays, tables)
            continue
        x, y = arrays[row[ADDRESS]], arrays[row[ADDRESS + ADDRESS_SIZE]]
        i, j = _address(row, 0, variables), _address(row, 1, variables)
        if op >= MAX_POOL:
            z, k = arrays[row[ADDRESS + 2 * ADDRESS_SIZE]], _address(row, 2, variables)
            _pool(op, x, i, y, j, z, k, p)
            at += 1
            continue
        if op == COPY:
            _copy(y, j, x, i, p)
        elif op == GEMM:
            z, k = arrays[row[ADDRESS + 2 * ADDRESS_SIZE]], _address(row, 2, variables)
            _gemm(x, i, y, j, z, k, p)
        elif op == PANEL_GEMM:
            z, k = arrays[row[ADDRESS + 2 * ADDRESS_SIZE]], _address(row, 2, variables)
            _panel_gemm(x, i, y, j, z, k, p)
        elif op == FILL:
            _fill(x, i, p)
        elif op == PANEL_IM2COL:
            panel_im2col(x, i, y, j, p)
        elif op == IM2COL:
            im2col(x, i, y, j, p)
        elif op == COL2IM:
            col2im(x, i, y, j, p)
        elif op == BROADCAST:
            _broadcast(x, i, y, j, p)
        elif op == ADD:
            _add(x, i, y, j, p)
        elif op == ROW_SUM:
            _row_sum(x, i, y, j, p)
        elif op == CHANNEL_SUM:
            _channel_sum(x, i, y, j, p)
        at += 1
