"""Register-tiled float32 matrix kernels, written as LLVM vector instructions through numba.

Two micro-kernels hold a tile of C in registers while they walk k, as in Goto and van de Geijn,
"Anatomy of high-performance matrix multiplication" (ACM TOMS 34, 2008):

outer_tile  broadcasts elements of packed A against vectors of packed B    C[i, j:j+W] += a * B
dot_tile    multiplies vectors of rows of A and of B, both along k         C[i, j] += sum(A * B)

Everything here is compiled code for compiled callers: call it from inside numba functions only.
Addresses are byte addresses (`array.ctypes.data`), strides and counts are elements. The vector
width and the tile sizes follow the CPU that numba compiles for, which is part of its cache key.
`load`, `fma`, `Loop` and the like write LLVM instructions, for kernels of this kind elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

__all__ = [
    "FLOAT_BYTES",
    "Loop",
    "VECTOR",
    "WORD",
    "element",
    "fma",
    "load",
    "store",
    "store_sums",
    "transpose",
    "word",
    "COLS",
    "DOT_COLS",
    "DOT_FLOATS",
    "DOT_ROWS",
    "HALF",
    "ROWS",
    "WIDTH",
    "dot_tile",
    "outer_tile",
    "pack_cols",
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
K_BLOCK = 256
"""Steps of k packed at once: a COLS-wide panel of B then fits the first-level cache."""
M_BLOCK = 16 * ROWS
"""Rows of A packed at once: with K_BLOCK they fit the second-level cache."""

_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
WORD = ir.IntType(64)
FLOAT_BYTES = 4


def word(value: int) -> Any:
    """A 64-bit constant."""
    return ir.Constant(WORD, value)


def element(builder: Any, address: Any, index: Any) -> Any:
    """Byte address of float number `index`."""
    return builder.add(address, builder.mul(index, word(FLOAT_BYTES)))


def load(builder: Any, address: Any, kind: Any = VECTOR) -> Any:
    """The value of a kind at an address of words."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=FLOAT_BYTES)


def store(builder: Any, value: Any, address: Any) -> None:
    """Put a value of words to an address."""
    pointer = builder.inttoptr(address, value.type.as_pointer())
    builder.store(value, pointer, align=FLOAT_BYTES)


def _splat(builder: Any, scalar: Any) -> Any:
    """The scalar in every lane."""
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), scalar, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, one, zeros)


def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, fused where the CPU can."""
    return builder.fadd(builder.fmul(a, b, flags=["contract"]), c, flags=["contract"])


class Loop:
    """`for i in range(count)` carrying values in registers; the body is written inside `with`."""

    def __init__(self, builder: Any, count: Any, carried: list[Any]) -> None:
        """Start from the values `carried`."""
        self.builder, self.count, self.start = builder, count, carried

    def __enter__(self) -> Loop:
        """Begin the body: `values` are this turn's, `next` takes those of the next."""
        b = self.builder
        self.entry = b.block
        self.head = b.append_basic_block("loop")
        self.body = b.append_basic_block("body")
        self.exit = b.append_basic_block("done")
        b.branch(self.head)
        b.position_at_end(self.head)
        self.index = b.phi(WORD)
        self.index.add_incoming(word(0), self.entry)
        self.values = [b.phi(value.type) for value in self.start]
        for phi, value in zip(self.values, self.start, strict=True):
            phi.add_incoming(value, self.entry)
        b.cbranch(b.icmp_signed("<", self.index, self.count), self.body, self.exit)
        b.position_at_end(self.body)
        self.next: list[Any] = []
        return self

    def __exit__(self, *error: object) -> None:
        """Close the loop; `values` are then the last ones."""
        b = self.builder
        latch = b.block
        self.index.add_incoming(b.add(self.index, word(1)), latch)
        for phi, value in zip(self.values, self.next, strict=True):
            phi.add_incoming(value, latch)
        b.branch(self.head)
        b.position_at_end(self.exit)


def _outer_rows(
    b: Any, rows: int, k: Any, a: Any, panel: Any, c: Any, c_row: Any, old: Any
) -> None:
    """The outer kernel for a fixed number of rows."""
    zero = ir.Constant(VECTOR, [0.0] * WIDTH)
    with Loop(b, k, [zero] * (rows * _VECTORS) + [a, panel]) as loop:
        *sums, a_at, b_at = loop.values
        vectors = [load(b, b.add(b_at, word(v * WIDTH * FLOAT_BYTES))) for v in range(_VECTORS)]
        for i in range(rows):
            scalar = load(b, b.add(a_at, word(i * FLOAT_BYTES)), ir.FloatType())
            left = _splat(b, scalar)
            for v, right in enumerate(vectors):
                loop.next.append(fma(b, left, right, sums[i * _VECTORS + v]))
        loop.next.append(b.add(a_at, word(rows * FLOAT_BYTES)))
        loop.next.append(b.add(b_at, word(COLS * FLOAT_BYTES)))
    sums = loop.values
    keep = b.icmp_signed("!=", old, word(0))
    with b.if_else(keep) as (add, overwrite):
        for branch, accumulate in ((add, True), (overwrite, False)):
            with branch:
                for i in range(rows):
                    row = element(b, c, b.mul(word(i), c_row))
                    for v in range(_VECTORS):
                        at = b.add(row, word(v * WIDTH * FLOAT_BYTES))
                        value = sums[i * _VECTORS + v]
                        store(b, b.fadd(load(b, at), value) if accumulate else value, at)


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
            choice.add_case(word(count), block)
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
    zero = ir.Constant(VECTOR, [0.0] * WIDTH)
    vectors = vectors + [zero] * (-len(vectors) % WIDTH)
    for _ in range(WIDTH.bit_length() - 1):
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [
            b.fadd(b.shuffle_vector(x, y, even), b.shuffle_vector(x, y, odd)) for x, y in pairs
        ]
    return vectors


def store_sums(b: Any, vectors: list[Any], tile: Any) -> None:
    """Put the sums of the lanes of each vector to an address, filled up to whole vectors."""
    for i, sums in enumerate(_sum_lanes(b, vectors)):
        store(b, sums, b.add(tile, word(i * WIDTH * FLOAT_BYTES)))


def _masked(b: Any, vector: Any, first: Any) -> Any:
    """Lanes before `first` set to zero."""
    kind = ir.VectorType(WORD, WIDTH)
    lanes = ir.Constant(kind, list(range(WIDTH)))
    start = b.insert_element(ir.Constant(kind, ir.Undefined), first, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    keep = b.icmp_signed(">=", lanes, b.shuffle_vector(start, start, zeros))
    return b.select(keep, vector, ir.Constant(VECTOR, [0.0] * WIDTH))


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
            last = builder.sub(limit, word(1))
            for i in range(count):
                inside = builder.icmp_signed("<", word(i), last)
                row = builder.select(inside, word(i), last)
                starts.append(element(builder, base, builder.mul(row, stride)))

        def step(offset: Any, sums: list[Any], first: Any = None) -> list[Any]:
            vectors = [load(builder, builder.add(start, offset)) for start in starts]
            if first is not None:
                vectors = [_masked(builder, vector, first) for vector in vectors]
            left, right = vectors[:DOT_ROWS], vectors[DOT_ROWS:]
            pairs = [(x, y) for x in left for y in right]
            return [fma(builder, x, y, s) for (x, y), s in zip(pairs, sums, strict=True)]

        zero = ir.Constant(VECTOR, [0.0] * WIDTH)
        whole = builder.sdiv(k, word(WIDTH))
        with Loop(builder, whole, [zero] * (DOT_ROWS * DOT_COLS)) as loop:
            offset = builder.mul(loop.index, word(WIDTH * FLOAT_BYTES))
            loop.next = step(offset, loop.values)
        rest = builder.sub(k, builder.mul(whole, word(WIDTH)))
        some = builder.zext(builder.icmp_signed(">", rest, word(0)), WORD)
        with Loop(builder, some, loop.values) as tail:
            offset = element(builder, word(0), builder.sub(k, word(WIDTH)))
            tail.next = step(offset, tail.values, builder.sub(word(WIDTH), rest))
        store_sums(builder, tail.values, tile)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), generate


@_intrinsic  # type: ignore[untyped-decorator]
def transpose(typing: Any, source: Any, pitch: Any, target: Any, target_pitch: Any) -> Any:
    """Transpose WIDTH rows of WIDTH words between two addresses, pitches in elements.

    Each round interleaves the vectors of the first half with those of the second, lane by lane.
    """

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        source, pitch, target, target_pitch = args
        kind = ir.VectorType(ir.IntType(32), WIDTH)
        mixed = [lane // 2 + lane % 2 * WIDTH for lane in range(2 * WIDTH)]
        low, high = (ir.Constant(kind, mixed[h : h + WIDTH]) for h in (0, WIDTH))
        starts = [element(b, source, b.mul(word(i), pitch)) for i in range(WIDTH)]
        rows = [load(b, start) for start in starts]
        for _ in range(WIDTH.bit_length() - 1):
            pairs = zip(rows[:HALF], rows[HALF:], strict=True)
            rows = [b.shuffle_vector(x, y, half) for x, y in pairs for half in (low, high)]
        for i, row in enumerate(rows):
            store(b, row, element(b, target, b.mul(word(i), target_pitch)))
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
                transpose(source.ctypes.data, a_row, target.ctypes.data, rows)
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
                transpose(source.ctypes.data, b_col, target.ctypes.data, COLS)
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
