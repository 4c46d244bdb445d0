"""A mesh-level program as rows of integers, for the compiled interpreter.

Every address is affine in the loop variables, so all that a program is can be written down in
numbers before it runs; nothing is compiled for a single program. Waits vanish: at tile fidelity a
copy is complete when it returns, and `verify` has shown that the program does not rely on less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from swcaffe.arrays import I64
from swcaffe.errors import ProgramError
from swcaffe.execute.codes import (
    ADD,
    ADDRESS,
    ADDRESS_SIZE,
    AVE_POOL,
    AVE_POOL_GRADIENT,
    BROADCAST,
    CHANNEL_SUM,
    COL2IM,
    COPY,
    DEPTH,
    END,
    FILL,
    GEMM,
    IM2COL,
    LDM,
    LOOP,
    MAP,
    MAX_POOL,
    MAX_POOL_GRADIENT,
    OPERANDS,
    OPERANDS_PER_ROW,
    PANEL_GEMM,
    PANEL_IM2COL,
    PRIVATE,
    ROW_SIZE,
    ROW_SUM,
    SHARED,
)
from swcaffe.execute.panels import paneled
from swcaffe.execute.vectors import encode
from swcaffe.ir.buffer import Region, Scope, strides
from swcaffe.ir.expr import Affine, Mod
from swcaffe.ir.intrinsic import Intrinsic
from swcaffe.ir.intrinsics.elementwise import Add, Broadcast, RowSum
from swcaffe.ir.intrinsics.fill import Zero, ZeroOutside
from swcaffe.ir.intrinsics.im2col import Col2im, Im2col, Windows
from swcaffe.ir.intrinsics.map import ChannelSum, Map
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm
from swcaffe.ir.intrinsics.pooling import AvePool, AvePoolGradient, MaxPool, MaxPoolGradient
from swcaffe.ir.layout import Layout, layout
from swcaffe.ir.stmt import (
    MAX_PARAMS,
    Alloc,
    Apply,
    Copy,
    Direction,
    For,
    If,
    Program,
    Recv,
    Send,
    Seq,
    Wait,
)
from swcaffe.ir.visitor import Visitor

__all__ = ["Flat", "Segment", "flatten"]

Axis: TypeAlias = tuple[int, int, int]
"""Extent, source stride, target stride."""
Encoded: TypeAlias = tuple[int, list[int], tuple[Region, ...]]
"""Operation, parameters, operands."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows that run in order; `extent` iterations that workers may share, or 0."""

    first: int
    last: int
    extent: int


@dataclass(frozen=True, slots=True)
class Flat:
    """Instruction rows, the segments they form, and where buffers lie.

    tables  vector code of all maps, one table after the other
    """

    code: I64
    tables: I64
    segments: tuple[Segment, ...]
    layout: Layout


def flatten(program: Program) -> Flat:
    """The rows of a verified mesh-level program."""
    places = layout(program)
    writer = _Writer(program, places)
    segments: list[Segment] = []
    for stmt in program.body.body:
        first = len(writer.rows)
        writer.visit(stmt)
        extent = stmt.extent if isinstance(stmt, For) and stmt.parallel else 0
        if len(writer.rows) > first:
            segments.append(Segment(first, len(writer.rows), extent))
    code = np.array(writer.rows, np.int64).reshape(-1, ROW_SIZE)
    return Flat(code, np.array(writer.tables or [0], np.int64), tuple(segments), places)


class _Writer(Visitor[None]):
    """Appends rows."""

    def __init__(self, program: Program, places: Layout) -> None:
        assert len(program.params) <= MAX_PARAMS, f"{len(program.params)} parameters"
        self.rows: list[list[int]] = []
        self.tables: list[int] = []
        self.places = places
        self.cpes = program.mesh[0] * program.mesh[1]
        self.mesh = program.mesh
        self.params = {buffer: number for number, buffer in enumerate(program.params)}
        self.loops: list[str] = []
        self.panels = paneled(program)

    def row(self, op: int, parameters: list[int], operands: tuple[Region, ...] = ()) -> None:
        row = [op, *parameters] + [0] * (ADDRESS - 1 - len(parameters))
        for region in operands[:OPERANDS_PER_ROW]:
            row += self.address(region)
        self.rows.append(row + [0] * (ROW_SIZE - len(row)))
        if len(operands) > OPERANDS_PER_ROW:
            self.row(OPERANDS, [], operands[OPERANDS_PER_ROW:])

    def factors(self, value: Affine) -> list[int]:
        factors = [0] * DEPTH
        for name, factor in value.terms:
            factors[self.loops.index(name)] = factor
        return factors

    def address(self, region: Region) -> list[int]:
        """Array number and element offset of a region's first element."""
        buffer = region.buffer
        offset = Affine()
        for start, stride in zip(region.start, strides(buffer.shape), strict=True):
            offset = offset + start * stride
        number, base, slot_size = self.params.get(buffer, SHARED), 0, 0
        if buffer.scope is Scope.LDM:
            number, base = LDM, self.places.ldm[buffer] // 4 * self.cpes
            slot_size = buffer.slot_bytes(self.mesh) // 4 * self.cpes
        elif buffer in self.places.private:
            number, base = PRIVATE, self.places.private[buffer]
        elif buffer in self.places.shared:
            base = self.places.shared[buffer]
        offset = offset + base
        if isinstance(region.slot, Mod):
            value, modulus = region.slot.value, region.slot.modulus
            slot = [modulus, slot_size, value.const, *self.factors(value)]
        else:
            offset = offset + region.slot * slot_size
            slot = [0] * (3 + DEPTH)
        address = [number, offset.const, *self.factors(offset), *slot]
        assert len(address) == ADDRESS_SIZE, "address layout"
        return address

    def seq(self, stmt: Seq) -> None:
        for part in stmt.body:
            self.visit(part)

    def for_(self, stmt: For) -> None:
        depth, parallel = len(self.loops), int(stmt.parallel)
        if depth == DEPTH:
            raise ProgramError(f"loop {stmt.var} is nested deeper than {DEPTH}")
        self.loops.append(stmt.var)
        self.row(LOOP, [depth, stmt.extent, parallel])
        begin = len(self.rows)
        self.visit(stmt.body)
        self.row(END, [depth, stmt.extent, parallel, begin])
        self.loops.pop()

    def alloc(self, stmt: Alloc) -> None:
        """Storage is laid out beforehand."""

    def wait(self, stmt: Wait) -> None:
        """Copies are complete when they return."""

    def copy(self, stmt: Copy) -> None:
        memory = strides(stmt.mem.buffer.shape)
        mem = tuple(memory[axis] for axis in stmt.axes)
        ldm = strides(stmt.ldm.buffer.shape)
        if stmt.direction is Direction.GET:
            axes = list(zip(stmt.ldm.sizes, mem, ldm, strict=True))
            self.row(COPY, _box(axes), (stmt.ldm, stmt.mem))
        else:
            axes = list(zip(stmt.ldm.sizes, ldm, mem, strict=True))
            self.row(COPY, _box(axes), (stmt.mem, stmt.ldm))

    def apply(self, stmt: Apply) -> None:
        in_panels = any(region.buffer in self.panels for region in stmt.args)
        if in_panels and isinstance(stmt.intrinsic, ZeroOutside):
            return  # products stop at the valid rows, and nothing reads the columns behind
        if isinstance(stmt.intrinsic, Map):
            extents, table = encode(stmt.intrinsic, stmt.args)
            self.row(MAP, [len(stmt.args), len(self.tables), *extents], stmt.args)
            self.tables += table
            return
        for op, parameters, operands in ENCODERS[type(stmt.intrinsic)](stmt.intrinsic, stmt.args):
            self.row(PANEL_CODES[op] if in_panels else op, parameters, operands)

    def if_(self, stmt: If) -> None:
        raise ProgramError("`if` belongs to CPE level")

    def send(self, stmt: Send) -> None:
        raise ProgramError("`send` belongs to CPE level")

    def recv(self, stmt: Recv) -> None:
        raise ProgramError("`recv` belongs to CPE level")


def _box(axes: list[Axis]) -> list[int]:
    """Extents, source strides and target strides of four axes, as few and long as possible."""
    merged: list[Axis] = []
    for size, source, target in axes:
        if size == 1:
            continue
        if merged and merged[-1][1:] == (size * source, size * target):
            merged[-1] = (merged[-1][0] * size, source, target)
        else:
            merged.append((size, source, target))
    if len(merged) > 4:
        raise ProgramError(f"a copy of {len(merged)} separate axes, at most 4 are supported")
    if not merged:
        merged = [(1, 1, 1)]
    padded = [(1, 0, 0)] * (4 - len(merged)) + merged
    return [axis[part] for part in range(3) for axis in padded]


def _fill(region: Region) -> Encoded:
    axes = [(n, s, s) for n, s in zip(region.sizes, strides(region.buffer.shape), strict=True)]
    return FILL, _box(axes), (region,)


def _matrix(region: Region) -> tuple[int, int, int]:
    """Rows, columns and row stride of a region as the matrix kernel takes it."""
    return region.sizes[0], math.prod(region.sizes[1:]), strides(region.buffer.shape)[0]


def _gemm(intrinsic: Intrinsic, args: tuple[Region, ...]) -> list[Encoded]:
    assert isinstance(intrinsic, MeshGemm), "encoder table"
    (m, n, c_row), a, b = _matrix(args[0]), _matrix(args[1]), _matrix(args[2])
    k = a[0] if intrinsic.trans_a else a[1]
    a_strides = [1, a[2]] if intrinsic.trans_a else [a[2], 1]
    b_strides = [1, b[2]] if intrinsic.trans_b else [b[2], 1]
    parameters = [m, n, k, *a_strides, *b_strides, c_row, int(intrinsic.accumulate)]
    return [(GEMM, parameters, args[:3])]


def _windows(windows: Windows, strip: Region, matrix: Region) -> list[int]:
    (channels, images), sizes = strip.sizes[:2], strip.sizes[2:]
    pairs = (windows.out, windows.kernel, windows.stride, windows.dilation, windows.shift, sizes)
    return [
        channels,
        images,
        *(value for pair in pairs for value in pair),
        *strides(strip.buffer.shape)[:3],
        *strides(matrix.buffer.shape)[:2],
    ]


def _im2col(intrinsic: Intrinsic, args: tuple[Region, ...]) -> list[Encoded]:
    assert isinstance(intrinsic, Im2col), "encoder table"
    return [(IM2COL, _windows(intrinsic.windows, args[1], args[0]), args)]


def _col2im(intrinsic: Intrinsic, args: tuple[Region, ...]) -> list[Encoded]:
    assert isinstance(intrinsic, Col2im), "encoder table"
    return [(COL2IM, _windows(intrinsic.windows, *args), args)]


def _broadcast(intrinsic: Intrinsic, args: tuple[Region, ...]) -> list[Encoded]:
    assert isinstance(intrinsic, Broadcast), "encoder table"
    shape, axis = args[0].sizes, intrinsic.axis
    sizes = [math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])]
    return [(BROADCAST, sizes, args)]


def _add(intrinsic: Intrinsic, args: tuple[Region, ...]) -> list[Encoded]:
    target, source = args
    pair = strides(source.buffer.shape), strides(target.buffer.shape)
    return [(ADD, _box(list(zip(target.sizes, *pair, strict=True))), args)]


def _row_sum(intrinsic: Intrinsic, args: tuple[Region, ...]) -> list[Encoded]:
    source = args[1]
    return [(ROW_SUM, [*source.sizes, *strides(source.buffer.shape)[:2]], args)]


def _channel_sum(intrinsic: Intrinsic, args: tuple[Region, ...]) -> list[Encoded]:
    assert isinstance(intrinsic, ChannelSum), "encoder table"
    source, axis = args[1], intrinsic.axis
    axes = list(zip(source.sizes, strides(source.buffer.shape), strict=True))
    kept = axes.pop(axis)
    axes = [(1, 0)] * (2 - len(axes)) + axes
    assert len(axes) == 2, f"a sum over {len(axes)} axes"
    return [(CHANNEL_SUM, [*kept, *axes[0], *axes[1]], args)]


def _pool(intrinsic: Intrinsic, args: tuple[Region, ...]) -> list[Encoded]:
    """Images and outputs are whole strips of some planes."""
    assert isinstance(intrinsic, PoolIntrinsic), "encoder table"
    w, code = intrinsic.strip, POOL_CODES[type(intrinsic)]
    forward = isinstance(intrinsic, MaxPool | AvePool)
    out, image = (args[0], args[-1]) if forward else (args[-1], args[0])
    for region in args:
        assert region.sizes[1:] == region.buffer.shape[1:], f"{region} is part of a strip"
    pairs = (out.sizes[1:], image.sizes[1:], w.kernel, w.stride, w.shift)
    parameters = [out.sizes[0], *(value for pair in pairs for value in pair)]
    return [(code, [*parameters, w.first, *w.size, *w.pad], args)]


PoolIntrinsic: TypeAlias = MaxPool | MaxPoolGradient | AvePool | AvePoolGradient
POOL_CODES: dict[type[Intrinsic], int] = {
    MaxPool: MAX_POOL,
    MaxPoolGradient: MAX_POOL_GRADIENT,
    AvePool: AVE_POOL,
    AvePoolGradient: AVE_POOL_GRADIENT,
}

ENCODERS: dict[type[Intrinsic], Callable[[Intrinsic, tuple[Region, ...]], list[Encoded]]] = {
    MeshGemm: _gemm,
    Zero: lambda intrinsic, args: [_fill(args[0])],
    ZeroOutside: lambda intrinsic, args: [_fill(slab) for slab in intrinsic.writes(args)],
    Im2col: _im2col,
    Col2im: _col2im,
    Broadcast: _broadcast,
    Add: _add,
    RowSum: _row_sum,
    ChannelSum: _channel_sum,
    **dict.fromkeys(POOL_CODES, _pool),
}
"""Intrinsic -> rows; a new intrinsic needs an entry here and a leaf in kernels."""

PANEL_CODES = {IM2COL: PANEL_IM2COL, GEMM: PANEL_GEMM}
"""Operation -> the same where the column matrix lies in panels."""
