"""What compiled tasks need below numba's own vocabulary: addresses as arrays, atomics, calls.

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
from numba.core.registry import cpu_target
from numba.extending import intrinsic

__all__ = [
    "atomic_add",
    "atomic_load",
    "atomic_store",
    "call_task",
    "carray",
    "compiled",
    "entry",
    "doubles",
    "floats",
    "ints",
    "pause",
    "regrouped",
    "slot",
    "task_address",
    "words",
]

log = logging.getLogger(__name__)

_numba: Any = numba  # its annotations describe dispatchers; ours, what the functions compute
carray: Any = _numba.carray
Function = TypeVar("Function", bound=Callable[..., Any])
_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
_WORD = ir.IntType(64)
_PAUSES = {"x86_64": "pause", "aarch64": "yield", "arm64": "yield"}


def compiled(function: Function) -> Function:
    """Compile a helper of tasks; it becomes part of each task that calls it."""
    made: Function = _numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})(function)
    return made


def regrouped(function: Function) -> Function:
    """`compiled`, and sums may be added up in any grouping, which vectorises them."""
    flags = {"contract", "reassoc", "nsz"}
    made: Function = _numba.njit(nogil=True, error_model="numpy", fastmath=flags)(function)
    return made


def entry(signature: str) -> Callable[[Function], Function]:
    """Compile a function called from Python, outside the interpreter lock; numba caches it."""

    def make(function: Function) -> Function:
        made: Function = _cached(
            lambda cache: _numba.njit(signature, nogil=True, cache=cache)(function), function
        )
        return made

    return make


def task_address(function: Callable[..., None], layout: np.dtype[Any]) -> int:
    """Compile a task, a function of (pointer to a record, index, worker), or load it."""
    pointer: Any = types.CPointer
    signature = types.void(pointer(_numba.from_dtype(layout)), types.int64, types.int64)
    compile_c = _numba.cfunc
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


def slot(builder: Any, table: Any, index: Any) -> Any:
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
def atomic_load(typing: Any, table: Any, index: Any) -> Any:
    """Word `index` of a table, sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(slot(builder, *args), "seq_cst", 8)

    return types.int64(types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def atomic_store(typing: Any, table: Any, index: Any, value: Any) -> Any:
    """Set word `index` of a table, sequentially consistent."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], slot(builder, *args[:2]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]
def atomic_add(typing: Any, table: Any, index: Any, value: Any) -> Any:
    """Add to word `index` of a table, sequentially consistent; the value before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", slot(builder, *args[:2]), args[2], "seq_cst")

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
