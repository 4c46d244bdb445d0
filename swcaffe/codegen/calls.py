"""Intrinsic -> C: the call of its primitive; a new intrinsic needs an entry here and in `cpe/`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from swcaffe.codegen.expressions import axes, call, extent, pointer, slot
from swcaffe.codegen.formulas import map_loops
from swcaffe.errors import ProgramError
from swcaffe.ir.buffer import Region, strides
from swcaffe.ir.intrinsic import Intrinsic
from swcaffe.ir.intrinsics.elementwise import Add, Broadcast, RowSum
from swcaffe.ir.intrinsics.fill import Zero, ZeroOutside
from swcaffe.ir.intrinsics.im2col import Col2im, Im2col, Windows
from swcaffe.ir.intrinsics.map import ChannelSum, Map
from swcaffe.ir.intrinsics.mesh_gemm import RlcGemm, Widen, matrix
from swcaffe.ir.intrinsics.pooling import (
    AvePool,
    AvePoolGradient,
    MaxPool,
    MaxPoolGradient,
    PoolStrip,
)
from swcaffe.ir.stmt import Apply

__all__ = ["CALLS", "apply_text"]

Lines: TypeAlias = list[str]
Args: TypeAlias = tuple[Region, ...]
Writer: TypeAlias = Callable[[Intrinsic, Args], Lines]
Kind = TypeVar("Kind", bound=Intrinsic)

CALLS: dict[type[Intrinsic], Writer] = {}
"""Intrinsic -> lines of C."""


def apply_text(stmt: Apply) -> Lines:
    """The lines of an intrinsic. Raises ProgramError for one that has no C."""
    writer = CALLS.get(type(stmt.intrinsic))
    if writer is None:
        raise ProgramError(
            f"intrinsic {stmt.intrinsic.name} has no C text",
            fix=f"known: {', '.join(sorted(kind.name for kind in CALLS))}",
        )
    return writer(stmt.intrinsic, stmt.args)


def _writes(kind: type[Kind]) -> Callable[[Callable[[Kind, Args], Lines]], Writer]:
    """Enter a function into CALLS."""

    def enter(function: Callable[[Kind, Args], Lines]) -> Writer:
        def writer(intrinsic: Intrinsic, args: Args) -> Lines:
            assert isinstance(intrinsic, kind), "table of calls"
            return function(intrinsic, args)

        CALLS[kind] = writer
        return writer

    return enter


def _box(region: Region) -> str:
    return axes(region.shape, strides(region.buffer.shape))


@_writes(Zero)
def _zero(op: Zero, args: Args) -> Lines:
    return call(op.c_name, pointer(args[0]), len(args[0].shape), _box(args[0]))


@_writes(ZeroOutside)
def _zero_outside(op: ZeroOutside, args: Args) -> Lines:
    tile, valid = args
    rows = zip(tile.shape, strides(tile.buffer.shape), valid.shape, strict=True)
    items = (f"{{{extent(size)}, {step}, {extent(inside)}}}" for size, step, inside in rows)
    box = f"(sw_axis[]){{{', '.join(items)}}}"
    return call(op.c_name, pointer(tile), len(tile.shape), box)


@_writes(Widen)
def _widen(op: Widen, args: Args) -> Lines:
    target, source = args
    sizes = matrix(source.buffer.shape)
    return call(op.c_name, pointer(target), pointer(source), *sizes, int(op.transpose))


@_writes(RlcGemm)
def _rlc_gemm(op: RlcGemm, args: Args) -> Lines:
    (m, n), a = matrix(args[0].buffer.shape), matrix(args[1].buffer.shape)
    k = a[0] if op.trans_a else a[1]
    flags = int(op.trans_a), int(op.accumulate)
    return call(op.c_name, *(pointer(arg) for arg in args), m, n, k, slot(op.step), *flags)


@_writes(Add)
def _add(op: Add, args: Args) -> Lines:
    target, source = args
    box = axes(target.shape, strides(target.buffer.shape), strides(source.buffer.shape))
    return call(op.c_name, pointer(target), pointer(source), len(target.shape), box)


@_writes(Broadcast)
def _broadcast(op: Broadcast, args: Args) -> Lines:
    shape, axis = args[0].buffer.shape, op.axis
    sizes = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    return call(op.c_name, pointer(args[0]), pointer(args[1]), *sizes)


@_writes(RowSum)
def _row_sum(op: RowSum, args: Args) -> Lines:
    target, source = args
    return call(op.c_name, pointer(target), pointer(source), len(source.shape), _box(source))


@_writes(ChannelSum)
def _channel_sum(op: ChannelSum, args: Args) -> Lines:
    """A row sum whose first axis is the one that stays."""
    target, source = args
    order = sorted(range(len(source.shape)), key=lambda axis: axis != op.axis)
    own = strides(source.buffer.shape)
    box = axes([source.shape[axis] for axis in order], tuple(own[axis] for axis in order))
    return call(RowSum.c_name, pointer(target), pointer(source), len(order), box)


def _windows(windows: Windows) -> str:
    pairs = (windows.out, windows.kernel, windows.stride, windows.dilation, windows.shift)
    return f"&(sw_windows){{{', '.join(_braces(pair) for pair in pairs)}}}"


def _braces(numbers: Sequence[int]) -> str:
    return f"{{{', '.join(str(number) for number in numbers)}}}"


@_writes(Im2col)
def _im2col(op: Im2col, args: Args) -> Lines:
    columns, strip = args
    boxes = _box(columns), _box(strip)
    return call(op.c_name, pointer(columns), pointer(strip), *boxes, _windows(op.windows), op.first)


@_writes(Col2im)
def _col2im(op: Col2im, args: Args) -> Lines:
    strip, columns = args
    boxes = _box(strip), _box(columns)
    return call(op.c_name, pointer(strip), pointer(columns), *boxes, _windows(op.windows))


@_writes(Map)
def _map(op: Map, args: Args) -> Lines:
    return map_loops(op, args)


def _pool(strip: PoolStrip) -> str:
    pairs = (strip.kernel, strip.stride, strip.pad, strip.size, strip.shift)
    return f"&(sw_pool){{{', '.join(_braces(pair) for pair in pairs)}, {strip.first}}}"


def _pair_box(one: Region, other: Region) -> str:
    """Axes of two regions of one shape."""
    return axes(one.shape, strides(one.buffer.shape), strides(other.buffer.shape))


@_writes(MaxPool)
def _max_pool(op: MaxPool, args: Args) -> Lines:
    dst, index, src = args
    return call(
        op.c_name,
        *(pointer(arg) for arg in args),
        _pair_box(dst, index),
        _box(src),
        _pool(op.strip),
    )


@_writes(MaxPoolGradient)
def _max_pool_gradient(op: MaxPoolGradient, args: Args) -> Lines:
    diff_src, index, diff_dst = args
    boxes = _box(diff_src), _pair_box(index, diff_dst)
    return call(op.c_name, *(pointer(arg) for arg in args), *boxes, _pool(op.strip))


@_writes(AvePool)
def _ave_pool(op: AvePool, args: Args) -> Lines:
    boxes = tuple(_box(arg) for arg in args)
    return call(op.c_name, *(pointer(arg) for arg in args), *boxes, _pool(op.strip))


@_writes(AvePoolGradient)
def _ave_pool_gradient(op: AvePoolGradient, args: Args) -> Lines:
    boxes = tuple(_box(arg) for arg in args)
    return call(op.c_name, *(pointer(arg) for arg in args), *boxes, _pool(op.strip))
