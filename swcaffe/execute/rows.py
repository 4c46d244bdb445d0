"""Moving and clearing short rows of floats by address, for compiled callers."""

from __future__ import annotations

from typing import Any

import numba.core.cgutils
from numba import types
from numba.extending import intrinsic

__all__ = ["clear", "move"]

_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function
_cgutils: Any = numba.core.cgutils  # numba's code generation is not annotated
_FLOAT_BYTES = 4


@_intrinsic  # type: ignore[untyped-decorator]  # Any on purpose, see above
def move(typing: Any, target: Any, source: Any, count: Any) -> Any:
    """Copy `count` floats between byte addresses that do not overlap; 0 copies nothing."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, source = (builder.inttoptr(x, _cgutils.voidptr_t) for x in args[:2])
        _cgutils.raw_memcpy(builder, target, source, args[2], _FLOAT_BYTES)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@_intrinsic  # type: ignore[untyped-decorator]  # Any on purpose, see above
def clear(typing: Any, target: Any, count: Any) -> Any:
    """Set `count` floats from a byte address on to zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = builder.inttoptr(args[0], _cgutils.voidptr_t)
        size = builder.mul(args[1], args[1].type(_FLOAT_BYTES))
        _cgutils.memset(builder, target, size, 0)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate
