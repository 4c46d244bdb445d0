"""Vector code at tile fidelity: as rows of a table, and the leaf that interprets it.

Chunks of elements pass through a register file that fits the host's first-level cache; each step
is one loop over a chunk, so that what it costs to interpret is shared by all its elements.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from swcaffe.arrays import F64, Shape
from swcaffe.execute.compiled import leaf
from swcaffe.execute.rows import move
from swcaffe.ir.buffer import Region, strides
from swcaffe.ir.intrinsics.map import Map
from swcaffe.ir.vector import OPERATIONS, VectorCode

__all__ = ["AXES", "encode", "evaluate"]

AXES = 3
"""Axes of a map after merging."""
CHUNK = 256
"""Elements of a register."""
LINE = 16
"""Floats of a cache line of the host."""
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
    """(extents, table): code, constants as bits of doubles, operands' strides in bytes."""
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
        table += [4 * stride for stride in operand]
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


@leaf
def _step(op: int, v: Any, r: int, a: int, b: int, c: int, d: int, n: int) -> None:
    """v[r] = op(v[a], v[b], v[c], v[d]) on n elements of registers v."""
    if op == _ADD:
        for x in range(n):
            v[r, x] = v[a, x] + v[b, x]
    elif op == _SUB:
        for x in range(n):
            v[r, x] = v[a, x] - v[b, x]
    elif op == _MUL:
        for x in range(n):
            v[r, x] = v[a, x] * v[b, x]
    elif op == _MAX:
        for x in range(n):
            left, right = v[a, x], v[b, x]
            v[r, x] = right if left <= right or right != right else left
    elif op == _MIN:
        for x in range(n):
            left, right = v[a, x], v[b, x]
            v[r, x] = right if left >= right or right != right else left
    elif op == _WHERE_POSITIVE:
        for x in range(n):
            left, right = v[b, x], v[c, x]
            v[r, x] = left if v[a, x] > 0 else right
    elif op == _WHERE_LESS:
        for x in range(n):
            left, right = v[c, x], v[d, x]
            v[r, x] = left if v[a, x] < v[b, x] else right
    elif op == _DIV:
        for x in range(n):
            v[r, x] = np.divide(v[a, x], v[b, x])
    else:
        _function(op, v, r, a, b, n)


@leaf
def _function(op: int, v: Any, r: int, a: int, b: int, n: int) -> None:
    """The steps that call the host's library."""
    if op == _SQRT:
        for x in range(n):
            v[r, x] = np.sqrt(v[a, x])
    elif op == _EXPM1:
        for x in range(n):
            v[r, x] = np.expm1(v[a, x])
    elif op == _TANH:
        for x in range(n):
            v[r, x] = np.tanh(v[a, x])
    elif op == _POWER:
        for x in range(n):
            v[r, x] = v[a, x] ** v[b, x]


@leaf
def _load(v: Any, r: int, source: int, stride: int, n: int) -> None:
    """Elements from a byte address on, `stride` bytes apart, into a register."""
    register = v.ctypes.data + 4 * r * CHUNK
    if stride == 4:
        move(register, source, n)
    elif stride == 0:
        move(register, source, 1)
        value = v[r, 0]
        for x in range(n):
            v[r, x] = value
    else:
        for x in range(n):
            move(register + 4 * x, source + x * stride, 1)


@leaf
def _store(target: int, stride: int, v: Any, r: int, n: int) -> None:
    """A register to elements from a byte address on, `stride` bytes apart."""
    register = v.ctypes.data + 4 * r * CHUNK
    if stride == 4:
        move(target, register, n)
    else:
        for x in range(n):
            move(target + x * stride, register + 4 * x, 1)


@leaf
def evaluate(operands: Any, extents: Any, table: Any) -> None:
    """Run a table on operands at these byte addresses: results, then arguments."""
    inputs, constants, steps, results = table[0], table[1], table[2], table[3]
    code = HEAD + constants
    stored = code + STEP * steps
    step_of = stored + results
    work = np.empty(table[4] * CHUNK + LINE, np.float32)
    first = -(work.ctypes.data // 4) % LINE  # registers start with a cache line
    v = work[first : first + table[4] * CHUNK].reshape(table[4], CHUNK)
    values = table[HEAD:code].view(np.float64)
    for number in range(constants):
        v[inputs + number, :] = np.float32(values[number])
    for i in range(extents[0]):
        for j in range(extents[1]):
            for x in range(0, extents[2], CHUNK):
                n = min(CHUNK, extents[2] - x)
                for a in range(inputs):
                    at = step_of + AXES * (results + a)
                    stride = table[at + 2]
                    offset = i * table[at] + j * table[at + 1] + x * stride
                    _load(v, a, operands[results + a] + offset, stride, n)
                for s in range(steps):
                    row = code + STEP * s
                    a, b, c, d = table[row + 1], table[row + 2], table[row + 3], table[row + 4]
                    _step(table[row], v, inputs + constants + s, a, b, c, d, n)
                for r in range(results):
                    at = step_of + AXES * r
                    stride = table[at + 2]
                    offset = i * table[at] + j * table[at + 1] + x * stride
                    _store(operands[r] + offset, stride, v, table[stored + r], n)
