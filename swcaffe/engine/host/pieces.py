"""Kernels on pieces: rows of a matrix that lie in many short runs, found by tables of offsets."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from swcaffe.kernels import (
    COLS,
    DOT_COLS,
    DOT_ROWS,
    FLOAT_BYTES,
    HALF,
    VECTOR,
    WIDTH,
    WORD,
    Loop,
    element,
    fma,
    load,
    store,
    store_sums,
    word,
)

__all__ = ["dot_lines", "pack_pieces"]

_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
_FEW = 6
"""Pieces of a panel's row up to which `pack_pieces` keeps their places in registers."""


def _masked_by(b: Any, vector: Any, bits: Any) -> Any:
    """Lanes whose bit of an integer is 0 set to zero."""
    lanes = ir.VectorType(ir.IntType(32), WIDTH)
    low = b.trunc(bits, ir.IntType(32))
    one = b.insert_element(ir.Constant(lanes, ir.Undefined), low, ir.IntType(32)(0))
    zeros = ir.Constant(lanes, [0] * WIDTH)
    mine = b.and_(
        b.shuffle_vector(one, one, zeros), ir.Constant(lanes, [1 << lane for lane in range(WIDTH)])
    )
    zero = ir.Constant(VECTOR, [0.0] * WIDTH)
    return b.select(b.icmp_unsigned("!=", mine, zeros), vector, zero)


def _piece_loads(b: Any, kind: str, index: Any, pieces: Any, masks: Any) -> Any:
    """A function from a row's address to its vector of step `index`."""

    def entry(table: Any, number: Any) -> Any:
        return load(b, b.add(table, b.mul(number, word(8))), WORD)

    if kind == "halves":
        half = ir.VectorType(ir.FloatType(), HALF)
        both = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), list(range(WIDTH)))
        first = b.mul(index, word(2))
        places = [entry(pieces, b.add(first, word(h))) for h in (0, 1)]

        def vector(at: Any) -> Any:
            parts = (load(b, element(b, at, place), half) for place in places)
            return b.shuffle_vector(*parts, both)
    else:
        place = entry(pieces, index)

        def vector(at: Any) -> Any:
            return load(b, element(b, at, place))

    if kind == "plain":
        return vector
    mask = entry(masks, index)
    return lambda at: _masked_by(b, vector(at), mask)


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
        last = builder.sub(rows, word(1))
        lefts = []
        for i in range(DOT_ROWS):
            row = builder.select(builder.icmp_signed("<", word(i), last), word(i), last)
            lefts.append(element(builder, a, builder.mul(row, a_row)))
        slots = [builder.add(starts, word(8 * j)) for j in range(DOT_COLS)]
        rights = [element(builder, b, load(builder, slot, WORD)) for slot in slots]
        zero = ir.Constant(VECTOR, [0.0] * WIDTH)
        end = builder.append_basic_block("end")
        choice = builder.switch(kind, end)
        for number, name in enumerate(PIECE_KINDS):
            block = builder.append_basic_block(name)
            choice.add_case(word(number), block)
            builder.position_at_end(block)
            with Loop(builder, steps, [zero] * (DOT_ROWS * DOT_COLS)) as loop:
                vector = _piece_loads(builder, name, loop.index, pieces, masks)
                offset = builder.mul(loop.index, word(WIDTH * FLOAT_BYTES))
                left = [load(builder, builder.add(at, offset)) for at in lefts]
                pairs = [(x, y) for y in map(vector, rights) for x in left]
                sums = zip(pairs, loop.values, strict=True)
                loop.next = [fma(builder, x, y, s) for (x, y), s in sums]
            by_row = [
                loop.values[j * DOT_ROWS + i] for i in range(DOT_ROWS) for j in range(DOT_COLS)
            ]
            store_sums(builder, by_row, tile)
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
            return load(b, b.add(table, b.mul(number, word(8))), WORD)

        def copy(start: Any, source: Any, row: Any, place: Any) -> None:
            store(b, load(b, element(b, start, source)), element(b, row, place))

        def every_row(pieces: Any) -> None:
            with Loop(b, rows, [panel]) as loop:
                pieces(element(b, images, entry(offsets, loop.index)), loop.values[0])
                loop.next = [b.add(loop.values[0], word(COLS * FLOAT_BYTES))]

        def many(start: Any, row: Any) -> None:
            with Loop(b, count, []) as loop:
                copy(start, entry(sources, loop.index), row, entry(places, loop.index))

        general, end = b.append_basic_block("general"), b.append_basic_block("end")
        choice = b.switch(count, general)
        for number in range(1, _FEW + 1):
            block = b.append_basic_block(f"pieces{number}")
            choice.add_case(word(number), block)
            b.position_at_end(block)
            known = [(entry(sources, word(i)), entry(places, word(i))) for i in range(number)]

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
