"""What compiled tasks need below numba's own vocabulary: addresses as arrays, vectors, atomics.

A task receives one table of 64-bit words: addresses of arrays, sizes, and numbers by their bits.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from swcaffe.kernels import WIDTH

__all__ = [
    "atomic_add",
    "atomic_load",
    "atomic_store",
    "best_of",
    "call_task",
    "carray",
    "compiled",
    "copy_lanes",
    "copy_vector",
    "copy_words",
    "entry",
    "doubles",
    "floats",
    "ints",
    "join_pairs",
    "pause",
    "regrouped",
    "split_pairs",
    "sum_rows",
    "task_address",
    "words",
    "zero_vector",
    "zero_words",
]

log = logging.getLogger(__name__)

carray: Any = numba.carray
Function = TypeVar("Function", bound=Callable[..., Any])
_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(ir.FloatType(), WIDTH)
_PAUSES = {"x86_64": "pause", "aarch64": "yield", "arm64": "yield"}


def compiled(function: Function) -> Function:
    """Compile a helper of tasks; it becomes part of each task that calls it."""
    made: Function = numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})(function)
    return made


def regrouped(function: Function) -> Function:
    """`compiled`, and sums may be added up in any grouping, which vectorises them."""
    flags = {"contract", "reassoc", "nsz"}
    made: Function = numba.njit(nogil=True, error_model="numpy", fastmath=flags)(function)
    return made


def entry(signature: str) -> Callable[[Function], Function]:
    """Compile a function called from Python, outside the interpreter lock; numba caches it."""

    def make(function: Function) -> Function:
        made: Function = _cached(
            lambda cache: numba.njit(signature, nogil=True, cache=cache)(function), function
        )
        return made

    return make


def task_address(function: Callable[..., None], layout: np.dtype[Any]) -> int:
    """Compile a task, a function of (pointer to a record, index, worker), or load it."""
    pointer: Any = types.CPointer
    signature = types.void(pointer(numba.from_dtype(layout)), types.int64, types.int64)
    compile_c: Any = numba.cfunc
    options = {"error_model": "numpy", "fastmath": {"contract"}}
    made = _cached(lambda cache: compile_c(signature, cache=cache, **options)(function), function)
    return int(made.address)


def _cached(compile_it: Callable[[bool], Any], function: Callable[..., Any]) -> Any:
    """Compile through numba's cache; without it where its files are damaged or out of reach."""
    try:
        return compile_it(True)
    except (EOFError, pickle.UnpicklingError, RuntimeError, OSError) as error:
        log.warning("compiling %s without the cache: %s", function.__qualname__, error)
        return compile_it(False)


def _slot(builder: Any, table: Any, index: Any) -> Any:
    """Pointer to word `index` of the table at an address."""
    offset = builder.mul(index, _WORD(8))
    return builder.inttoptr(builder.add(table, offset), _WORD.as_pointer())


@_intrinsic  # type: ignore[untyped-decorator]
def _pointer(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@compiled
def floats(address: int, count: int) -> Any:
    """The float32 array at an address."""
    return carray(_pointer(address), (count,), np.float32)


@compiled
def doubles(address: int, count: int) -> Any:
    """The float64 array at an address."""
    return carray(_pointer(address), (count,), np.float64)


@compiled
def ints(address: int, count: int) -> Any:
    """The int32 array at an address."""
    return carray(_pointer(address), (count,), np.int32)


@compiled
def words(address: int, count: int) -> Any:
    """The int64 array at an address."""
    return carray(_pointer(address), (count,), np.int64)


@_intrinsic  # type: ignore[untyped-decorator]
def copy_vector(typing: Any, source: Any, target: Any) -> Any:
    """Copy WIDTH floats from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, target = (builder.inttoptr(a, _VECTOR.as_pointer()) for a in args)
        builder.store(builder.load(source, align=4), target, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def zero_vector(typing: Any, target: Any) -> Any:
    """Set WIDTH floats at an address to zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = builder.inttoptr(args[0], _VECTOR.as_pointer())
        builder.store(ir.Constant(_VECTOR, [0.0] * WIDTH), target, align=4)
        return context.get_dummy_value()

    return types.void(types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def split_pairs(typing: Any, source: Any, even: Any, odd: Any) -> Any:
    """Copy 2 WIDTH floats, those with even numbers to one address, the others to another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(32), WIDTH)
        next_vector = builder.add(args[0], _WORD(4 * WIDTH))
        pair = [
            builder.load(builder.inttoptr(at, _VECTOR.as_pointer()), align=4)
            for at in (args[0], next_vector)
        ]
        for first, target in ((0, args[1]), (1, args[2])):
            chosen = ir.Constant(lanes, list(range(first, 2 * WIDTH, 2)))
            pointer = builder.inttoptr(target, _VECTOR.as_pointer())
            builder.store(builder.shuffle_vector(*pair, chosen), pointer, align=4)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 3), generate


@_intrinsic  # type: ignore[untyped-decorator]
def join_pairs(typing: Any, even: Any, odd: Any, target: Any) -> Any:
    """Undo `split_pairs`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(32), WIDTH)
        pair = [
            builder.load(builder.inttoptr(at, _VECTOR.as_pointer()), align=4) for at in args[:2]
        ]
        for part in (0, 1):
            numbers = [lane // 2 + lane % 2 * WIDTH + part * WIDTH // 2 for lane in range(WIDTH)]
            at = builder.add(args[2], _WORD(4 * WIDTH * part))
            pointer = builder.inttoptr(at, _VECTOR.as_pointer())
            mixed = builder.shuffle_vector(*pair, ir.Constant(lanes, numbers))
            builder.store(mixed, pointer, align=4)
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
        source, target = (builder.inttoptr(a, _VECTOR.as_pointer()) for a in args[:2])
        small = ir.VectorType(ir.IntType(32), WIDTH)
        undefined = ir.Constant(small, ir.Undefined)
        count = builder.trunc(args[2], ir.IntType(32))
        first = builder.insert_element(undefined, count, ir.IntType(32)(0))
        limit = builder.shuffle_vector(first, undefined, ir.Constant(small, [0] * WIDTH))
        keep = builder.icmp_signed("<", ir.Constant(small, list(range(WIDTH))), limit)
        zero = ir.Constant(_VECTOR, [0.0] * WIDTH)
        value = builder.select(keep, builder.load(source, align=4), zero)
        builder.store(value, target, align=4)
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
            start = builder.add(builder.load(_slot(builder, starts, outer.index)), offset)
            with for_range(builder, count) as inner:
                at = builder.add(start, builder.mul(inner.index, pitch))
                row = builder.load(builder.inttoptr(at, _VECTOR.as_pointer()), align=4)
                builder.store(builder.fadd(builder.load(total), row), total)
        place = builder.inttoptr(target, _VECTOR.as_pointer())
        builder.store(builder.load(total), place, align=4)
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
        small = ir.VectorType(ir.IntType(32), WIDTH)

        def splat(word: Any) -> Any:
            undefined = ir.Constant(small, ir.Undefined)
            value = builder.trunc(word, ir.IntType(32))
            one = builder.insert_element(undefined, value, ir.IntType(32)(0))
            return builder.shuffle_vector(one, undefined, ir.Constant(small, [0] * WIDTH))

        in_entry: Any = cgutils.alloca_once  # where LLVM turns it into a register
        for_range: Any = cgutils.for_range
        top, where = in_entry(builder, _VECTOR), in_entry(builder, small)
        builder.store(ir.Constant(_VECTOR, [-float(np.finfo(np.float32).max)] * WIDTH), top)
        builder.store(ir.Constant(small, [-1] * WIDTH), where)
        lanes = builder.mul(ir.Constant(small, list(range(WIDTH))), splat(stride))
        lanes = builder.add(lanes, splat(first))
        with for_range(builder, taps) as loop:
            skip = builder.mul(builder.load(_slot(builder, offsets, loop.index)), _WORD(4))
            pointer = builder.inttoptr(builder.add(source, skip), _VECTOR.as_pointer())
            value = builder.load(pointer, align=4)
            at = builder.add(lanes, splat(builder.load(_slot(builder, places, loop.index))))
            old, old_at = builder.load(top), builder.load(where)
            larger = builder.fcmp_ordered(">", value, old)
            builder.store(builder.select(larger, value, old), top)
            builder.store(builder.select(larger, at, old_at), where)
        for value, target in ((top, best), (where, place)):
            loaded = builder.load(value)
            pointer = builder.inttoptr(target, loaded.type.as_pointer())
            builder.store(loaded, pointer, align=4)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), generate


@_intrinsic  # type: ignore[untyped-decorator]
def atomic_load(typing: Any, table: Any, index: Any) -> Any:
    """Word `index` of a table, sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_slot(builder, *args), "seq_cst", 8)

    return types.int64(types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def atomic_store(typing: Any, table: Any, index: Any, value: Any) -> Any:
    """Set word `index` of a table, sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _slot(builder, *args[:2]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def atomic_add(typing: Any, table: Any, index: Any, value: Any) -> Any:
    """Add to word `index` of a table, sequentially consistent; the value before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _slot(builder, *args[:2]), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def call_task(typing: Any, task: Any, table: Any, index: Any, worker: Any) -> Any:
    """Call the compiled task at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_WORD.as_pointer(), _WORD, _WORD])
        task = builder.inttoptr(args[0], kind.as_pointer())
        table = builder.inttoptr(args[1], _WORD.as_pointer())
        builder.call(task, [table, args[2], args[3]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@_intrinsic  # type: ignore[untyped-decorator]
def pause(typing: Any) -> Any:
    """Tell the CPU that this is a waiting loop."""
    triple = cpu_target.target_context.codegen().magic_tuple()[0]
    text = _PAUSES.get(triple.split("-")[0], "")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        binding.initialize_native_asmparser()  # numba does not need one itself
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(ir.InlineAsm(kind, text, "", side_effect=True), [])
        return context.get_dummy_value()

    return types.void(), generate
