"""Register-tiled float32 matrix kernels, written as LLVM vector instructions through numba.

Two micro-kernels hold a tile of C in registers while they walk k, as in Goto and van de Geijn,
"Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 2008):

outer_tile  broadcasts elements of packed A against vectors of packed B    C[i, j:j+W] += a * B
dot_tile    multiplies vectors of rows of A and of B, both along k         C[i, j] += sum(A * B)

Everything here is compiled code for compiled callers: call it from inside numba functions only.
Addresses are byte addresses (`array.ctypes.data`), strides and counts are elements. The vector
width and the tile sizes follow the CPU that numba compiles for, which is part of its cache key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

__all__ = [
    "COLS",
    "DOT_COLS",
    "DOT_FLOATS",
    "DOT_ROWS",
    "HALF",
    "ROWS",
    "WIDTH",
    "dot_lines",
    "dot_tile",
    "outer_tile",
    "pack_cols",
    "pack_pieces",
    "pack_rows",
    "sgemm_leaf",
]


def _tile_sizes() -> tuple[int, int, int, int, int]:
    """(vector width, rows and vectors of the outer tile, rows and columns of the dot tile).

    The accumulators, one row of B and one broadcast must fit the register file: 32 vector
    registers for AVX-512 and Arm, 16 otherwise.
    """
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    if "+avx512f" in features:
        return 16, 14, 2, 5, 5
    if "+avx" in features.split(","):
        return 8, 6, 2, 3, 3
    if triple.startswith(("aarch64", "arm64")):
        return 4, 8, 3, 5, 5
    return 4, 6, 2, 3, 3


WIDTH, ROWS, _VECTORS, DOT_ROWS, DOT_COLS = _tile_sizes()
COLS = _VECTORS * WIDTH
DOT_FLOATS = -(-DOT_ROWS * DOT_COLS // WIDTH) * WIDTH
"""Words of a dot tile with its filling."""
HALF = WIDTH // 2
_FEW = 6
"""Pieces of a panel's row up to which `pack_pieces` keeps their places in registers."""
K_BLOCK = 256
"""Steps of k packed at once: a COLS-wide panel of B then fits the first-level cache."""
M_BLOCK = 16 * ROWS
"""Rows of A packed at once: with K_BLOCK they fit the second-level cache."""

_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
_VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
_WORD = ir.IntType(64)
_FLOAT_BYTES = 4


def _word(value: int) -> Any:
    return ir.Constant(_WORD, value)


def _element(builder: Any, address: Any, index: Any) -> Any:
    """Byte address of float number `index`."""
    return builder.add(address, builder.mul(index, _word(_FLOAT_BYTES)))


def _load(builder: Any, address: Any, kind: Any = _VECTOR) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=_FLOAT_BYTES)


def _store(builder: Any, value: Any, address: Any) -> None:
    pointer = builder.inttoptr(address, value.type.as_pointer())
    builder.store(value, pointer, align=_FLOAT_BYTES)


def _splat(builder: Any, scalar: Any) -> Any:
    """The scalar in every lane."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, ir.IntType(32)(0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), lanes)


def _fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, fused where the CPU can."""
    return builder.fadd(builder.fmul(a, b, flags=["contract"]), c, flags=["contract"])


class _Loop:
    """`for i in range(count)` carrying values in registers; the body is written inside `with`."""

    def __init__(self, builder: Any, count: Any, carried: list[Any]) -> None:
        self.builder, self.count, self.start = builder, count, carried

    def __enter__(self) -> _Loop:
        b = self.builder
        self.entry = b.block
        self.head = b.append_basic_block("loop")
        self.body = b.append_basic_block("body")
        self.exit = b.append_basic_block("done")
        b.branch(self.head)
        b.position_at_end(self.head)
        self.index = b.phi(_WORD)
        self.index.add_incoming(_word(0), self.entry)
        self.values = [b.phi(value.type) for value in self.start]
        for phi, value in zip(self.values, self.start, strict=True):
            phi.add_incoming(value, self.entry)
        b.cbranch(b.icmp_signed("<", self.index, self.count), self.body, self.exit)
        b.position_at_end(self.body)
        self.next: list[Any] = []
        return self

    def __exit__(self, *error: object) -> None:
        b = self.builder
        latch = b.block
        self.index.add_incoming(b.add(self.index, _word(1)), latch)
        for phi, value in zip(self.values, self.next, strict=True):
            phi.add_incoming(value, latch)
        b.branch(self.head)
        b.position_at_end(self.exit)


def _outer_rows(
    b: Any, rows: int, k: Any, a: Any, panel: Any, c: Any, c_row: Any, old: Any
) -> None:
    """The outer kernel for a fixed number of rows."""
    zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
    with _Loop(b, k, [zero] * (rows * _VECTORS) + [a, panel]) as loop:
        *sums, a_at, b_at = loop.values
        vectors = [_load(b, b.add(b_at, _word(v * WIDTH * _FLOAT_BYTES))) for v in range(_VECTORS)]
        for i in range(rows):
            scalar = _load(b, b.add(a_at, _word(i * _FLOAT_BYTES)), ir.FloatType())
            left = _splat(b, scalar)
            for v, right in enumerate(vectors):
                loop.next.append(_fma(b, left, right, sums[i * _VECTORS + v]))
        loop.next.append(b.add(a_at, _word(rows * _FLOAT_BYTES)))
        loop.next.append(b.add(b_at, _word(COLS * _FLOAT_BYTES)))
    sums = loop.values
    keep = b.icmp_signed("!=", old, _word(0))
    with b.if_else(keep) as (add, overwrite):
        for branch, accumulate in ((add, True), (overwrite, False)):
            with branch:
                for i in range(rows):
                    row = _element(b, c, b.mul(_word(i), c_row))
                    for v in range(_VECTORS):
                        at = b.add(row, _word(v * WIDTH * _FLOAT_BYTES))
                        value = sums[i * _VECTORS + v]
                        _store(b, b.fadd(_load(b, at), value) if accumulate else value, at)


@_intrinsic  # type: ignore[untyped-decorator]
def outer_tile(
    typing: Any, rows: Any, k: Any, a: Any, panel: Any, c: Any, c_row: Any, old: Any
) -> Any:
    """C (rows, COLS) = A @ B, plus the old C where `old` is not 0.

    rows   1 to ROWS
    a      address of A packed as (k, rows)
    panel  address of B packed as (k, COLS)
    c      address of C, whose rows are `c_row` elements apart
    """

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        rows, k, a, panel, c, c_row, old = args
        end = b.append_basic_block("end")
        choice = b.switch(rows, end)
        for count in range(1, ROWS + 1):
            block = b.append_basic_block(f"rows{count}")
            choice.add_case(_word(count), block)
            b.position_at_end(block)
            _outer_rows(b, count, k, a, panel, c, c_row, old)
            b.branch(end)
        b.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), generate


def _sum_lanes(b: Any, vectors: list[Any]) -> list[Any]:
    """Sums of the lanes of each vector, WIDTH sums in a vector, in order.

    Neighbouring lanes of two vectors are added into one, until every lane is a vector's sum.
    """
    lanes = ir.VectorType(ir.IntType(32), WIDTH)
    even = ir.Constant(lanes, list(range(0, 2 * WIDTH, 2)))
    odd = ir.Constant(lanes, list(range(1, 2 * WIDTH, 2)))
    zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
    vectors = vectors + [zero] * (-len(vectors) % WIDTH)
    for _ in range(WIDTH.bit_length() - 1):
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            b.fadd(b.shuffle_vector(x, y, even), b.shuffle_vector(x, y, odd)) for x, y in pairs
        ]
    return vectors


def _store_sums(b: Any, vectors: list[Any], tile: Any) -> None:
    for i, sums in enumerate(_sum_lanes(b, vectors)):
        _store(b, sums, b.add(tile, _word(i * WIDTH * _FLOAT_BYTES)))


def _masked(b: Any, vector: Any, first: Any) -> Any:
    """Lanes before `first` set to zero."""
    kind = ir.VectorType(_WORD, WIDTH)
    lanes = ir.Constant(kind, list(range(WIDTH)))
    start = b.insert_element(ir.Constant(kind, ir.Undefined), first, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    start = b.shuffle_vector(start, ir.Constant(kind, ir.Undefined), zeros)
    keep = b.icmp_signed(">=", lanes, start)
    return b.select(keep, vector, ir.Constant(_VECTOR, [0.0] * WIDTH))


@_intrinsic  # type: ignore[untyped-decorator]
def dot_tile(
    typing: Any, rows: Any, cols: Any, k: Any, a: Any, a_row: Any, b: Any, b_row: Any, tile: Any
) -> Any:
    """Tile (DOT_ROWS, DOT_COLS) = A @ B.T for rows of A and of B that are contiguous in k.

    The tile is written as DOT_FLOATS words, of which the first DOT_ROWS * DOT_COLS count.

    rows, cols  valid rows of A and of B; tile elements beyond them repeat the last valid ones
    k           at least WIDTH; the rest that fills no vector is read with an overlapping one
    a, b        addresses of the first rows, `a_row` and `b_row` elements apart
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, cols, k, a, a_row, b, b_row, tile = args
        starts = []
        for count, limit, base, stride in (
            (DOT_ROWS, rows, a, a_row),
            (DOT_COLS, cols, b, b_row),
        ):
            last = builder.sub(limit, _word(1))
            for i in range(count):
                inside = builder.icmp_signed("<", _word(i), last)
                row = builder.select(inside, _word(i), last)
                starts.append(_element(builder, base, builder.mul(row, stride)))

        def step(offset: Any, sums: list[Any], first: Any = None) -> list[Any]:
            vectors = [_load(builder, builder.add(start, offset)) for start in starts]
            if first is not None:
                vectors = [_masked(builder, vector, first) for vector in vectors]
            left, right = vectors[:DOT_ROWS], vectors[DOT_ROWS:]
            pairs = [(x, y) for x in left for y in right]
            return [_fma(builder, x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]

        zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
        whole = builder.sdiv(k, _word(WIDTH))
        with _Loop(builder, whole, [zero] * (DOT_ROWS * DOT_COLS)) as loop:
            offset = builder.mul(loop.index, _word(WIDTH * _FLOAT_BYTES))
            loop.next = step(offset, loop.values)
        rest = builder.sub(k, builder.mul(whole, _word(WIDTH)))
        some = builder.zext(builder.icmp_signed(">", rest, _word(0)), _WORD)
        with _Loop(builder, some, loop.values) as tail:
            offset = _element(builder, _word(0), builder.sub(k, _word(WIDTH)))
            tail.next = step(offset, tail.values, builder.sub(_word(WIDTH), rest))
        _store_sums(builder, tail.values, tile)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), generate


def _masked_by(b: Any, vector: Any, bits: Any) -> Any:
    """Lanes whose bit of an integer is 0 set to zero."""
    lanes = ir.VectorType(ir.IntType(32), WIDTH)
    word = b.trunc(bits, ir.IntType(32))
    one = b.insert_element(ir.Constant(lanes, ir.Undefined), word, ir.IntType(32)(0))
    zeros = ir.Constant(lanes, [0] * WIDTH)
    every = b.shuffle_vector(one, ir.Constant(lanes, ir.Undefined), zeros)
    mine = b.and_(every, ir.Constant(lanes, [1 << lane for lane in range(WIDTH)]))
    zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
    return b.select(b.icmp_unsigned("!=", mine, zeros), vector, zero)


def _piece_loads(b: Any, kind: str, index: Any, pieces: Any, masks: Any) -> Any:
    """A function from a row's address to its vector of step `index`."""

    def entry(table: Any, number: Any) -> Any:
        return _load(b, b.add(table, b.mul(number, _word(8))), _WORD)

    if kind == "halves":
        half = ir.VectorType(ir.FloatType(), HALF)
        both = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), list(range(WIDTH)))
        first = b.mul(index, _word(2))
        places = [entry(pieces, b.add(first, _word(h))) for h in (0, 1)]

        def load(at: Any) -> Any:
            parts = (_load(b, _element(b, at, place), half) for place in places)
            return b.shuffle_vector(*parts, both)
    else:
        place = entry(pieces, index)

        def load(at: Any) -> Any:
            return _load(b, _element(b, at, place))

    if kind == "plain":
        return load
    mask = entry(masks, index)
    return lambda at: _masked_by(b, load(at), mask)


PIECE_KINDS = ("plain", "masked", "halves")
"""What a step of `dot_lines` is, by number."""


@_intrinsic  # type: ignore[untyped-decorator]
def dot_lines(
    typing: Any, rows: Any, steps: Any, kind: Any, a: Any, a_row: Any, b: Any, starts: Any,
    pieces: Any, masks: Any, tile: Any
) -> Any:  # fmt: skip
    """Tile (DOT_ROWS, DOT_COLS) = A @ B.T where a row of B is many pieces, found by offsets.

    rows      valid rows of A, `a_row` elements apart; the last repeats beyond them
    steps     vectors of WIDTH along k; A is contiguous in them
    kind      0: a step of B is one piece of WIDTH words; 1: of which only the lanes with a bit in
              the step's mask count; 2: two pieces of HALF words, masked likewise
    b         address; row j starts at b + 4 * int64 number j at the address `starts`
    pieces    address of the int64 offsets of the pieces from a row's start, in words
    masks     address of an int64 for each step, if `kind` is not 0
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, steps, kind, a, a_row, b, starts, pieces, masks, tile = args
        last = builder.sub(rows, _word(1))
        lefts = []
        for i in range(DOT_ROWS):
            row = builder.select(builder.icmp_signed("<", _word(i), last), _word(i), last)
            lefts.append(_element(builder, a, builder.mul(row, a_row)))
        slots = [builder.add(starts, _word(8 * j)) for j in range(DOT_COLS)]
        rights = [_element(builder, b, _load(builder, slot, _WORD)) for slot in slots]
        zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
        end = builder.append_basic_block("end")
        choice = builder.switch(kind, end)
        for number, name in enumerate(PIECE_KINDS):
            block = builder.append_basic_block(name)
            choice.add_case(_word(number), block)
            builder.position_at_end(block)
            with _Loop(builder, steps, [zero] * (DOT_ROWS * DOT_COLS)) as loop:
                load = _piece_loads(builder, name, loop.index, pieces, masks)
                offset = builder.mul(loop.index, _word(WIDTH * _FLOAT_BYTES))
                left = [_load(builder, builder.add(at, offset)) for at in lefts]
                pairs = [(x, y) for y in map(load, rights) for x in left]
                sums = zip(pairs, loop.values, strict=True)
                loop.next = [_fma(builder, x, y, s) for (x, y), s in sums]
            by_row = [
                loop.values[j * DOT_ROWS + i] for i in range(DOT_ROWS) for j in range(DOT_COLS)
            ]
            _store_sums(builder, by_row, tile)
            builder.branch(end)
        builder.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 10), generate


@_intrinsic  # type: ignore[untyped-decorator]
def pack_pieces(
    typing: Any, count: Any, rows: Any, images: Any, offsets: Any, sources: Any, places: Any,
    panel: Any
) -> Any:  # fmt: skip
    """Fill a panel (rows, COLS) with `count` pieces a row, WIDTH words copied for each.

    images   address; row r begins at images + 4 * int64 number r at the address `offsets`
    sources  address of an int64 for each piece: its word behind the row's beginning
    places   address of an int64 for each piece, ascending: its column in the panel

    What a piece brings too many is overwritten by the next one, of the next row too; the panel
    needs room for WIDTH words behind it.
    """

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        count, rows, images, offsets, sources, places, panel = args

        def entry(table: Any, number: Any) -> Any:
            return _load(b, b.add(table, b.mul(number, _word(8))), _WORD)

        def copy(start: Any, source: Any, row: Any, place: Any) -> None:
            _store(b, _load(b, _element(b, start, source)), _element(b, row, place))

        def every_row(pieces: Any) -> None:
            with _Loop(b, rows, [panel]) as loop:
                pieces(_element(b, images, entry(offsets, loop.index)), loop.values[0])
                loop.next = [b.add(loop.values[0], _word(COLS * _FLOAT_BYTES))]

        def many(start: Any, row: Any) -> None:
            with _Loop(b, count, []) as loop:
                copy(start, entry(sources, loop.index), row, entry(places, loop.index))

        general, end = b.append_basic_block("general"), b.append_basic_block("end")
        choice = b.switch(count, general)
        for number in range(1, _FEW + 1):
            block = b.append_basic_block(f"pieces{number}")
            choice.add_case(_word(number), block)
            b.position_at_end(block)
            known = [(entry(sources, _word(i)), entry(places, _word(i))) for i in range(number)]

            def few(start: Any, row: Any, known: Any = known) -> None:
                for source, place in known:
                    copy(start, source, row, place)

            every_row(few)
            b.branch(end)
        b.position_at_end(general)
        every_row(many)
        b.branch(end)
        b.position_at_end(end)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 7), generate


@_intrinsic  # type: ignore[untyped-decorator]
def _transpose(typing: Any, source: Any, pitch: Any, target: Any, target_pitch: Any) -> Any:
    """Transpose WIDTH rows of WIDTH words between two addresses, pitches in elements.

    Each round interleaves the vectors of the first half with those of the second, lane by lane.
    """

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        source, pitch, target, target_pitch = args
        kind = ir.VectorType(ir.IntType(32), WIDTH)
        mixed = [lane // 2 + lane % 2 * WIDTH for lane in range(2 * WIDTH)]
        low, high = (ir.Constant(kind, mixed[h : h + WIDTH]) for h in (0, WIDTH))
        starts = [_element(b, source, b.mul(_word(i), pitch)) for i in range(WIDTH)]
        rows = [_load(b, start) for start in starts]
        for _ in range(WIDTH.bit_length() - 1):
            pairs = zip(rows[:HALF], rows[HALF:], strict=True)
            rows = [b.shuffle_vector(x, y, half) for x, y in pairs for half in (low, high)]
        for i, row in enumerate(rows):
            _store(b, row, _element(b, target, b.mul(_word(i), target_pitch)))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@njit(nogil=True)
def pack_rows(a: Any, m: int, k: int, a_row: int, a_col: int, out: Any, room: int = 0) -> None:
    """Copy A (m, k) to blocks of ROWS rows, each block packed as (k, its rows).

    room  rows of A that may be read, if more than m
    """
    for i0 in range(0, m, ROWS):
        rows = min(ROWS, m - i0)
        at, done = i0 * k, 0
        if a_col == 1 and rows <= WIDTH and i0 + WIDTH <= room:
            # a row of the packed block is shorter than a vector: the next one overwrites the rest
            done = (k - 1) // WIDTH * WIDTH
            for p in range(0, done, WIDTH):
                source, target = a[i0 * a_row + p :], out[at + p * rows :]
                _transpose(source.ctypes.data, a_row, target.ctypes.data, rows)
        for p in range(done, k):
            if a_row == 1:
                line = a[i0 + p * a_col :]
                for i in range(rows):
                    out[at + p * rows + i] = line[i]
            else:
                for i in range(rows):
                    out[at + p * rows + i] = a[(i0 + i) * a_row + p * a_col]


@njit(nogil=True)
def pack_cols(b: Any, k: int, n: int, b_row: int, b_col: int, out: Any) -> None:
    """Copy B (k, n), n up to COLS, to one panel (k, COLS) filled up with zeros."""
    if b_col == 1 and n == COLS:
        for p in range(k):
            line, row = b[p * b_row : p * b_row + COLS], out[p * COLS : (p + 1) * COLS]
            for j in range(COLS):
                row[j] = line[j]
        return
    done = 0
    if b_row == 1 and n == COLS:
        done = k - k % WIDTH
        for p in range(0, done, WIDTH):
            for j in range(0, COLS, WIDTH):
                source, target = b[p + j * b_col :], out[p * COLS + j :]
                _transpose(source.ctypes.data, b_col, target.ctypes.data, COLS)
    for p in range(done, k):
        for j in range(n):
            out[p * COLS + j] = b[p * b_row + j * b_col]
        for j in range(n, COLS):
            out[p * COLS + j] = 0


@njit(nogil=True)
def sgemm_leaf(
    m: int, n: int, k: int, a: Any, a_row_stride: int, a_col_stride: int,
    b: Any, b_row_stride: int, b_col_stride: int, c: Any, c_row_stride: int,
) -> None:  # fmt: skip
    """c += a @ b on flat float32 arrays whose element (0, 0) is number 0 of the view passed.

    a (m, k), b (k, n), c (m, n); element (i, j) of x is x[i * row_stride + j * col_stride], and
    rows of c are contiguous. Any of m, n, k may be 0. Scratch is allocated for each call.
    """
    packed_a = np.empty(M_BLOCK * K_BLOCK, np.float32)
    panel = np.empty(K_BLOCK * COLS, np.float32)
    tile = np.empty(ROWS * COLS, np.float32)
    for p0 in range(0, k, K_BLOCK):
        depth = min(K_BLOCK, k - p0)
        for i0 in range(0, m, M_BLOCK):
            height = min(M_BLOCK, m - i0)
            start = i0 * a_row_stride + p0 * a_col_stride
            pack_rows(a[start:], height, depth, a_row_stride, a_col_stride, packed_a, m - i0)
            for j0 in range(0, n, COLS):
                width = min(COLS, n - j0)
                start = p0 * b_row_stride + j0 * b_col_stride
                pack_cols(b[start:], depth, width, b_row_stride, b_col_stride, panel)
                for i in range(0, height, ROWS):
                    rows = min(ROWS, height - i)
                    left = packed_a[i * depth :].ctypes.data
                    out = c[(i0 + i) * c_row_stride + j0 :]
                    right = panel.ctypes.data
                    if width == COLS:
                        outer_tile(rows, depth, left, right, out.ctypes.data, c_row_stride, 1)
                    else:
                        outer_tile(rows, depth, left, right, tile.ctypes.data, COLS, 0)
                        for r in range(rows):
                            for j in range(width):
                                out[r * c_row_stride + j] += tile[r * COLS + j]
