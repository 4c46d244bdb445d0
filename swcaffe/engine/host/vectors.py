"""Moves of whole vectors between addresses, as LLVM vector instructions.

WIDTH floats are one vector of this CPU (swcaffe.kernels). Where a function may touch words beyond
those it is asked for, its docstring says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from swcaffe.engine.host.native import compiled, floats, slot
from swcaffe.kernels import WIDTH

__all__ = [
    "best_of",
    "copy_even",
    "copy_lanes",
    "copy_vector",
    "copy_words",
    "join_pairs",
    "largest",
    "split_pairs",
    "sum_rows",
    "zero_vector",
    "zero_words",
]

_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
_WORD = ir.IntType(64)
_SMALL = ir.VectorType(ir.IntType(32), WIDTH)
_VECTOR = ir.VectorType(ir.FloatType(), WIDTH)


def _splat(builder: Any, word: Any) -> Any:
    """A word as an int32 in every lane."""
    undefined = ir.Constant(_SMALL, ir.Undefined)
    value = builder.trunc(word, ir.IntType(32))
    one = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(_SMALL, [0] * WIDTH))


def _lanes(numbers: Any) -> Any:
    return ir.Constant(_SMALL, list(numbers))


def _load(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, _VECTOR.as_pointer()), align=4)


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=4)


@_intrinsic  # type: ignore[untyped-decorator]
def copy_vector(typing: Any, source: Any, target: Any) -> Any:
    """Copy WIDTH floats from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _store(builder, _load(builder, args[0]), args[1])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def zero_vector(typing: Any, target: Any) -> Any:
    """Set WIDTH floats at an address to zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _store(builder, ir.Constant(_VECTOR, [0.0] * WIDTH), args[0])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def split_pairs(typing: Any, source: Any, even: Any, odd: Any) -> Any:
    """Copy 2 WIDTH floats, those with even numbers to one address, the others to another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, even, odd = args
        pair = [_load(builder, source), _load(builder, builder.add(source, _WORD(4 * WIDTH)))]
        for first, target in ((0, even), (1, odd)):
            chosen = _lanes(range(first, 2 * WIDTH, 2))
            _store(builder, builder.shuffle_vector(*pair, chosen), target)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@_intrinsic  # type: ignore[untyped-decorator]
def copy_even(typing: Any, source: Any, target: Any) -> Any:
    """Copy those with even numbers of 2 WIDTH floats from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, target = args
        pair = [_load(builder, source), _load(builder, builder.add(source, _WORD(4 * WIDTH)))]
        _store(builder, builder.shuffle_vector(*pair, _lanes(range(0, 2 * WIDTH, 2))), target)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def join_pairs(typing: Any, even: Any, odd: Any, target: Any) -> Any:
    """Undo `split_pairs`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        even, odd, target = args
        pair = [_load(builder, even), _load(builder, odd)]
        for first in (0, WIDTH // 2):
            mixed = _lanes(first + lane // 2 + lane % 2 * WIDTH for lane in range(WIDTH))
            at = builder.add(target, _WORD(8 * first))
            _store(builder, builder.shuffle_vector(*pair, mixed), at)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@compiled
def copy_words(source: int, target: int, count: int, room: int) -> None:
    """Copy `count` floats by whole vectors, up to WIDTH - 1 more but none from `room` on."""
    safe = min(count, room - WIDTH + 1)
    done = 0
    while done < safe:
        copy_vector(source + 4 * done, target + 4 * done)
        done += WIDTH
    if done < count:
        left = floats(source + 4 * done, count - done)
        right = floats(target + 4 * done, count - done)
        for x in range(count - done):
            right[x] = left[x]


@compiled
def zero_words(target: int, count: int) -> None:
    """Set `count` floats to zero by whole vectors: may write WIDTH - 1 more."""
    for x in range(0, count, WIDTH):
        zero_vector(target + 4 * x)


@_intrinsic  # type: ignore[untyped-decorator]
def copy_lanes(typing: Any, source: Any, target: Any, lanes: Any) -> Any:
    """Copy the first `lanes` of WIDTH floats from one address to another, zeros behind them."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, target, lanes = args
        keep = builder.icmp_signed("<", _lanes(range(WIDTH)), _splat(builder, lanes))
        zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
        _store(builder, builder.select(keep, _load(builder, source), zero), target)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def sum_rows(
    typing: Any, target: Any, starts: Any, number: Any, offset: Any, pitch: Any, count: Any
) -> Any:
    """Set WIDTH floats to the sum of number * count rows.

    The rows begin `offset` bytes behind the `number` addresses at the address `starts`, `count` of
    them `pitch` bytes apart behind each.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, starts, number, offset, pitch, count = args
        in_entry: Any = cgutils.alloca_once  # where LLVM turns it into a register
        for_range: Any = cgutils.for_range
        total = in_entry(builder, _VECTOR)
        builder.store(ir.Constant(_VECTOR, [0.0] * WIDTH), total)
        with for_range(builder, number) as outer:
            start = builder.add(builder.load(slot(builder, starts, outer.index)), offset)
            with for_range(builder, count) as inner:
                at = builder.add(start, builder.mul(inner.index, pitch))
                builder.store(builder.fadd(builder.load(total), _load(builder, at)), total)
        _store(builder, builder.load(total), target)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


@_intrinsic  # type: ignore[untyped-decorator]
def best_of(
    typing: Any,
    best: Any,
    place: Any,
    source: Any,
    offsets: Any,
    places: Any,
    taps: Any,
    first: Any,
    stride: Any,
) -> Any:
    """Set WIDTH floats to the largest of `taps` candidates each, and WIDTH int32 to its place.

    Candidate t of lane x is word `offsets[t] + x` behind `source`; its place is
    `first + places[t] + x * stride`. The first of equals wins; NaN and -FLT_MAX never do: place -1.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        best, place, source, offsets, places, taps, first, stride = args
        in_entry: Any = cgutils.alloca_once  # where LLVM turns it into a register
        for_range: Any = cgutils.for_range
        top, where = in_entry(builder, _VECTOR), in_entry(builder, _SMALL)
        builder.store(ir.Constant(_VECTOR, [-float(np.finfo(np.float32).max)] * WIDTH), top)
        builder.store(_lanes([-1] * WIDTH), where)
        lanes = builder.mul(_lanes(range(WIDTH)), _splat(builder, stride))
        lanes = builder.add(lanes, _splat(builder, first))
        with for_range(builder, taps) as loop:
            skip = builder.mul(builder.load(slot(builder, offsets, loop.index)), _WORD(4))
            value = _load(builder, builder.add(source, skip))
            number = builder.load(slot(builder, places, loop.index))
            at = builder.add(lanes, _splat(builder, number))
            old, old_at = builder.load(top), builder.load(where)
            larger = builder.fcmp_ordered(">", value, old)
            builder.store(builder.select(larger, value, old), top)
            builder.store(builder.select(larger, at, old_at), where)
        _store(builder, builder.load(top), best)
        _store(builder, builder.load(where), place)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), generate


@_intrinsic  # type: ignore[untyped-decorator]
def _largest_lanes(typing: Any, source: Any, vectors: Any, target: Any) -> Any:
    """Set WIDTH floats to the largest of each lane of some vectors; NaN never wins."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, vectors, target = args
        in_entry: Any = cgutils.alloca_once  # where LLVM turns it into a register
        for_range: Any = cgutils.for_range
        top = in_entry(builder, _VECTOR)
        builder.store(ir.Constant(_VECTOR, [float("-inf")] * WIDTH), top)
        with for_range(builder, vectors) as loop:
            value = _load(builder, builder.add(source, builder.mul(loop.index, _WORD(4 * WIDTH))))
            old = builder.load(top)
            builder.store(builder.select(builder.fcmp_ordered(">", value, old), value, old), top)
        _store(builder, builder.load(top), target)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@compiled
def largest(source: int, count: int) -> Any:
    """The largest of `count` floats, -inf of none; NaN never wins."""
    lanes = np.empty(WIDTH, np.float32)
    whole = count // WIDTH
    _largest_lanes(source, whole, lanes.ctypes.data)
    top = np.float32(-np.inf)
    for x in range(WIDTH):
        top = max(top, lanes[x])
    rest = floats(source + 4 * whole * WIDTH, count - whole * WIDTH)
    for x in range(len(rest)):
        if rest[x] > top:
            top = rest[x]
    return top
