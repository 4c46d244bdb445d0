"""Moving and clearing rows of floats by address, for compiled callers. Most rows are short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba.core.cgutils
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["clear", "move"]

_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
_cgutils: Any = numba.core.cgutils  # numba's code generation is not annotated
_FLOAT_BYTES = 4
_LONG = 64
"""Floats from which on the C library's copy is worth its call."""


@_intrinsic  # type: ignore[untyped-decorator]  # Any on purpose, see above
def _move_any(typing: Any, target: Any, source: Any, count: Any) -> Any:
    """memcpy of `count` floats."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, source = (builder.inttoptr(x, _cgutils.voidptr_t) for x in args[:2])
        _cgutils.raw_memcpy(builder, target, source, args[2], _FLOAT_BYTES)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _fixed(count: int) -> Callable[[int, int], None]:
    """A copy of so many floats: one or two vector registers, without a call."""

    @_intrinsic  # type: ignore[untyped-decorator]  # Any on purpose, see above
    def move(typing: Any, target: Any, source: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            target, source = (builder.inttoptr(x, _cgutils.voidptr_t) for x in args)
            size = args[0].type(count)
            _cgutils.raw_memcpy(builder, target, source, size, _FLOAT_BYTES)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    fixed: Callable[[int, int], None] = move
    return fixed


_move_1, _move_4, _move_8, _move_16 = (_fixed(count) for count in (1, 4, 8, 16))


def _clearing(fixed: int) -> Any:
    """Clear so many floats, or as many as an argument says where `fixed` is 0."""

    @_intrinsic  # type: ignore[untyped-decorator]  # Any on purpose, see above
    def clear(typing: Any, target: Any, count: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            target = builder.inttoptr(args[0], _cgutils.voidptr_t)
            count = args[1].type(fixed) if fixed else args[1]
            size = builder.mul(count, args[1].type(_FLOAT_BYTES))
            _cgutils.memset(builder, target, size, 0)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return clear


_clear_any, _clear_1 = _clearing(0), _clearing(1)


@njit(nogil=True)
def clear(target: int, count: int) -> None:
    """Set `count` floats from a byte address on to zero."""
    if count > 4:
        _clear_any(target, count)
    else:
        for at in range(0, 4 * count, 4):
            _clear_1(target + at, 1)


@njit(nogil=True)
def move(target: int, source: int, count: int) -> None:
    """Copy `count` floats between byte addresses that do not overlap; 0 copies nothing.

    A rest that fills no register is copied with one that overlaps what is already there.
    """
    end = 4 * count
    if count > _LONG:
        _move_any(target, source, count)
    elif count >= 16:
        for at in range(0, end - 60, 64):
            _move_16(target + at, source + at)
        _move_16(target + end - 64, source + end - 64)
    elif count >= 8:
        _move_8(target, source)
        _move_8(target + end - 32, source + end - 32)
    elif count >= 4:
        _move_4(target, source)
        _move_4(target + end - 16, source + end - 16)
    else:
        for at in range(0, end, 4):
            _move_1(target + at, source + at)
