"""Vector code at tile fidelity: as rows of a table, and the leaf that interprets it.

Chunks of elements pass through a register file that fits the host's first-level cache; each step
is one loop over a chunk, so that what it costs to interpret is shared by all its elements.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numba import njit

from swcaffe.arrays import F64, I64, Shape
from swcaffe.execute.rows import move
from swcaffe.ir.buffer import Region, strides
from swcaffe.ir.intrinsics.map import Map
from swcaffe.ir.vector import OPERATIONS, VectorCode

__all__ = ["AXES", "encode", "evaluate"]

AXES = 3
"""Axes of a map after merging."""
CHUNK = 256
"""Elements of a register."""
HEAD, STEP = 5, 5
"""Numbers before the constants; numbers of a step: operation and up to four operands."""

Layout: TypeAlias = tuple[Shape, list[Shape]]
"""Extents, and for each operand its strides."""

(
    _ADD,
    _SUB,
    _MUL,
    _MAX,
    _MIN,
    _WHERE_POSITIVE,
    _WHERE_LESS,
    _DIV,
    _SQRT,
    _EXPM1,
    _TANH,
    _POWER,
) = range(len(OPERATIONS))


def encode(intrinsic: Map, args: tuple[Region, ...]) -> tuple[Shape, list[int]]:
    """(extents, table): code, constants as bits of doubles, strides of results and arguments."""
    code = intrinsic.code
    extents, steps = _merge(_layout(intrinsic, args))
    table = [code.inputs, len(code.constants), len(code.steps), len(code.results), _values(code)]
    constants: F64 = np.array(code.constants, np.float64)
    table += constants.view(np.int64).tolist()
    numbers = {name: number for number, name in enumerate(OPERATIONS)}
    for step in code.steps:
        table += [numbers[step.op], *step.operands, *[0] * (STEP - 1 - len(step.operands))]
    table += code.results
    for operand in steps:
        table += operand
    return extents, table


def _values(code: VectorCode) -> int:
    return code.inputs + len(code.constants) + len(code.steps)


def _layout(intrinsic: Map, args: tuple[Region, ...]) -> Layout:
    shape = args[0].sizes
    everywhere = tuple(range(len(shape)))
    found = []
    for region, span in zip(args, (everywhere,) * intrinsic.results + intrinsic.spans, strict=True):
        own = strides(region.buffer.shape)
        found.append(tuple(own[span.index(d)] if d in span else 0 for d in everywhere))
    return shape, found


def _merge(layout: Layout) -> Layout:
    """AXES axes, as few of them longer than 1 as possible, and the last as long as possible."""
    kept: list[tuple[int, Shape]] = []
    for size, *steps in zip(layout[0], *layout[1], strict=True):
        if size == 1:
            continue
        if kept and kept[-1][1] == tuple(size * step for step in steps):
            kept[-1] = kept[-1][0] * size, tuple(steps)
        else:
            kept.append((size, tuple(steps)))
    assert len(kept) <= AXES, f"{len(kept)} separate axes in {layout}"
    padded = [(1, (0,) * len(layout[1]))] * (AXES - len(kept)) + kept
    return tuple(n for n, _ in padded), list(zip(*(steps for _, steps in padded), strict=True))


_leaf = njit(nogil=True, cache=True)


@_leaf
def _step(op: int, r: Any, a: Any, b: Any, c: Any, d: Any, n: int) -> None:
    """r = op(a, b, c, d), rows of n elements."""
    if op == _ADD:
        for x in range(n):
            r[x] = a[x] + b[x]
    elif op == _SUB:
        for x in range(n):
            r[x] = a[x] - b[x]
    elif op == _MUL:
        for x in range(n):
            r[x] = a[x] * b[x]
    elif op == _MAX:
        for x in range(n):
            r[x] = a[x] if a[x] > b[x] or a[x] != a[x] else b[x]
    elif op == _MIN:
        for x in range(n):
            r[x] = a[x] if a[x] < b[x] or a[x] != a[x] else b[x]
    elif op == _WHERE_POSITIVE:
        for x in range(n):
            r[x] = b[x] if a[x] > 0 else c[x]
    elif op == _WHERE_LESS:
        for x in range(n):
            r[x] = c[x] if a[x] < b[x] else d[x]
    else:
        _function(op, r, a, b, n)


@_leaf
def _function(op: int, r: Any, a: Any, b: Any, n: int) -> None:
    """The steps that are not one instruction."""
    if op == _DIV:
        for x in range(n):
            r[x] = np.divide(a[x], b[x])
    elif op == _SQRT:
        for x in range(n):
            r[x] = np.sqrt(a[x])
    elif op == _EXPM1:
        for x in range(n):
            r[x] = np.expm1(a[x])
    elif op == _TANH:
        for x in range(n):
            r[x] = np.tanh(a[x])
    elif op == _POWER:
        for x in range(n):
            r[x] = a[x] ** b[x]


@_leaf
def _load(register: Any, source: Any, at: int, stride: int, n: int) -> None:
    """Elements at, at + stride, …"""
    if stride == 1:
        move(register.ctypes.data, source.ctypes.data + 4 * at, n)
    elif stride == 0:
        register[:n] = source[at]
    else:
        for x in range(n):
            register[x] = source[at + x * stride]


@_leaf
def _store(target: Any, at: int, stride: int, register: Any, n: int) -> None:
    """Elements at, at + stride, …"""
    if stride == 1:
        move(target.ctypes.data + 4 * at, register.ctypes.data, n)
    else:
        for x in range(n):
            target[at + x * stride] = register[x]


@_leaf
def evaluate(arrays: Any, numbers: I64, offsets: I64, extents: Any, table: I64) -> None:
    """Run a table on operands: results first, each an array by number and an offset in it."""
    inputs, constants, steps, results = table[0], table[1], table[2], table[3]
    code = HEAD + constants
    stored = code + STEP * steps
    step_of = stored + results
    registers = np.empty((table[4], CHUNK), np.float32)
    values = table[HEAD:code].view(np.float64)
    for number in range(constants):
        registers[inputs + number, :] = np.float32(values[number])
    at = np.zeros(results + inputs, np.int64)
    for i in range(extents[0]):
        for j in range(extents[1]):
            for operand in range(results + inputs):
                s = step_of + AXES * operand
                at[operand] = offsets[operand] + i * table[s] + j * table[s + 1]
            for x in range(0, extents[2], CHUNK):
                n = min(CHUNK, extents[2] - x)
                for a in range(inputs):
                    stride = table[step_of + AXES * (results + a) + 2]
                    source = arrays[numbers[results + a]]
                    _load(registers[a], source, at[results + a] + x * stride, stride, n)
                for s in range(steps):
                    row = table[code + STEP * s : code + STEP * s + STEP]
                    a, b, c, d = row[1], row[2], row[3], row[4]
                    _step(
                        row[0],
                        registers[inputs + constants + s],
                        registers[a],
                        registers[b],
                        registers[c],
                        registers[d],
                        n,
                    )
                for r in range(results):
                    stride = table[step_of + AXES * r + 2]
                    value = registers[table[stored + r]]
                    _store(arrays[numbers[r]], at[r] + x * stride, stride, value, n)
