"""What compiled tasks need below numba's own vocabulary: addresses as arrays, vectors, atomics.

A task receives one table of 64-bit words: addresses of arrays, sizes, and numbers by their bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from swcaffe.kernels import WIDTH

__all__ = [
    "add_vector",
    "atomic_add",
    "atomic_load",
    "atomic_store",
    "call_task",
    "carray",
    "compiled",
    "copy_vector",
    "doubles",
    "floats",
    "ints",
    "pause",
    "words",
]

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


def _slot(builder: Any, table: Any, index: Any) -> Any:
    """Pointer to word `index` of the table at an address."""
    offset = builder.mul(index, _WORD(8))
    return builder.inttoptr(builder.add(table, offset), _WORD.as_pointer())


@_intrinsic
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


@_intrinsic
def copy_vector(typing: Any, source: Any, target: Any) -> Any:
    """Copy WIDTH floats from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, target = (builder.inttoptr(a, _VECTOR.as_pointer()) for a in args)
        builder.store(builder.load(source, align=4), target, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@_intrinsic
def add_vector(typing: Any, source: Any, target: Any, lanes: Any) -> Any:
    """Add the first `lanes` of WIDTH floats at one address to those at another.

    All WIDTH floats are read at both and written at the second.
    """

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
        builder.store(builder.fadd(builder.load(target, align=4), value), target, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@_intrinsic
def atomic_load(typing: Any, table: Any, index: Any) -> Any:
    """Word `index` of a table, sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_slot(builder, *args), "seq_cst", 8)

    return types.int64(types.int64, types.int64), generate


@_intrinsic
def atomic_store(typing: Any, table: Any, index: Any, value: Any) -> Any:
    """Set word `index` of a table, sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _slot(builder, *args[:2]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@_intrinsic
def atomic_add(typing: Any, table: Any, index: Any, value: Any) -> Any:
    """Add to word `index` of a table, sequentially consistent; the value before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _slot(builder, *args[:2]), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), generate


@_intrinsic
def call_task(typing: Any, task: Any, table: Any, index: Any, worker: Any) -> Any:
    """Call the compiled task at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_WORD.as_pointer(), _WORD, _WORD])
        task = builder.inttoptr(args[0], kind.as_pointer())
        table = builder.inttoptr(args[1], _WORD.as_pointer())
        builder.call(task, [table, args[2], args[3]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), generate


@_intrinsic
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
