"""Intrinsic -> its leaf at mesh fidelity; a new intrinsic needs an entry here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import I64
from swcaffe.errors import DeadlockError
from swcaffe.execute.ldm import Box, Ldms
from swcaffe.execute.lockstep import kernels, windows
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
from swcaffe.machine.events import Counters
from swcaffe.machine.spec import Machine

__all__ = ["LEAVES", "Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an intrinsic on all CPEs: where, what, its regions, and the loop values."""

    ldms: Ldms
    machine: Machine
    counters: Counters
    intrinsic: Intrinsic
    boxes: list[Box]
    values: Mapping[str, int]


def _zero(call: Call) -> None:
    box = call.boxes[0]
    kernels.clear(call.ldms.floats, box.at, box.extents, box.strides)


def _zero_outside(call: Call) -> None:
    box, valid = call.boxes
    kernels.clear_outside(call.ldms.floats, box.at, box.extents, box.strides, valid.extents)


def _widen(call: Call) -> None:
    op = call.intrinsic
    assert isinstance(op, Widen), "leaf table"
    target, source = call.boxes
    rows, cols = matrix(source.buffer.shape)
    kernels.widen(
        call.ldms.doubles, target.at, call.ldms.floats, source.at, rows, cols, op.transpose
    )


def _rlc_gemm(call: Call) -> None:
    op = call.intrinsic
    assert isinstance(op, RlcGemm), "leaf table"
    kernel, mesh = call.machine.kernel, call.machine.mesh
    vectors = kernel.tile_n // kernel.lanes
    if max(kernel.tile_m, vectors) > call.machine.register_bus.depth:
        raise DeadlockError(
            f"all {mesh.cpes} CPEs wait to send: the kernel sends {kernel.tile_m} and {vectors} "
            f"messages before it receives, receive queues hold {call.machine.register_bus.depth}"
        )
    c, a, b = call.boxes
    (m, n), a_shape = matrix(c.buffer.shape), matrix(a.buffer.shape)
    k = a_shape[0] if op.trans_a else a_shape[1]
    counts = np.zeros(3, np.int64)
    kernels.rlc_gemm(
        call.ldms.floats,
        c.at,
        call.ldms.doubles,
        a.at,
        b.at,
        (m, n, k),
        op.step.evaluate(call.values),
        op.trans_a,
        op.accumulate,
        (mesh.rows, mesh.cols),
        (kernel.tile_m, kernel.tile_n),
        kernel.lanes,
        counts,
    )
    call.counters.row_messages += int(counts[0])
    call.counters.col_messages += int(counts[1])
    call.counters.flops += int(counts[2])


def _broadcast(call: Call) -> None:
    op = call.intrinsic
    assert isinstance(op, Broadcast), "leaf table"
    target, source = call.boxes
    shape, axis = target.buffer.shape, op.axis
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    kernels.broadcast(call.ldms.floats, target.at, source.at, outer, shape[axis], inner)


def _add(call: Call) -> None:
    target, source = call.boxes
    kernels.add(
        call.ldms.floats, target.at, target.strides, source.at, source.strides, source.extents
    )


def _row_sum(call: Call) -> None:
    target, source = call.boxes
    kernels.row_sum(call.ldms.floats, target.at, source.at, source.extents, source.strides)


def _map(call: Call) -> None:
    """The code on all CPEs at once; what a CPE has no part of is computed and not stored."""
    op = call.intrinsic
    assert isinstance(op, Map), "leaf table"
    targets, sources = call.boxes[: op.results], call.boxes[op.results :]
    axes = len(targets[0].buffer.shape)
    shape = targets[0].extents.max(axis=0)[-axes:]
    valid = np.ones((call.machine.mesh.cpes, *shape), bool)
    for axis, size in enumerate(shape):
        inside = np.arange(size) < targets[0].extents[:, [axis - axes]]
        valid &= inside.reshape(-1, *(size if d == axis else 1 for d in range(axes)))
    views = []
    for box, span in zip(sources, op.spans, strict=True):
        own = box.strides[-len(box.buffer.shape) :]
        steps = [own[span.index(d)] if d in span else 0 for d in range(axes)]
        views.append(call.ldms.view(box.at, shape, steps))
    values = op.code.evaluate(views)
    for box, value in zip(targets, values, strict=True):
        view = call.ldms.view(box.at, shape, box.strides[-axes:].tolist())
        np.copyto(view, value, where=valid)


def _channel_sum(call: Call) -> None:
    op = call.intrinsic
    assert isinstance(op, ChannelSum), "leaf table"
    target, source = call.boxes
    axes = len(source.buffer.shape)
    kernels.channel_sum(
        call.ldms.floats,
        target.at,
        source.at,
        source.extents,
        source.strides,
        len(source.strides) - axes + op.axis,
    )


def _windows(w: Windows) -> I64:
    pairs = (w.out, w.kernel, w.stride, w.dilation, w.shift)
    return np.array([value for pair in pairs for value in pair], np.int64)


def _im2col(call: Call) -> None:
    op = call.intrinsic
    assert isinstance(op, Im2col), "leaf table"
    columns, strip = call.boxes
    w = _windows(op.windows)
    mesh, factors = call.machine.mesh, dict(op.first.terms)
    row, col = np.divmod(np.arange(mesh.cpes), mesh.cols)
    windows.im2col(
        call.ldms.floats,
        columns.at,
        columns.strides,
        columns.extents,
        factors.get("ROW", 0) * row + factors.get("COL", 0) * col,
        strip.at,
        strip.strides,
        strip.extents,
        w,
    )


def _col2im(call: Call) -> None:
    op = call.intrinsic
    assert isinstance(op, Col2im), "leaf table"
    strip, columns = call.boxes
    w = _windows(op.windows)
    windows.col2im(
        call.ldms.floats, strip.at, strip.strides, columns.at, columns.strides[1:], strip.extents, w
    )


def _strip(w: PoolStrip) -> I64:
    pairs = (w.kernel, w.stride, w.pad, w.size, w.shift)
    return np.array([*(value for pair in pairs for value in pair), w.first], np.int64)


def _max_pool(call: Call) -> None:
    op, memory = call.intrinsic, call.ldms
    assert isinstance(op, MaxPool), "leaf table"
    dst, index, src = call.boxes
    w = _strip(op.strip)
    windows.max_pool(
        memory.floats, memory.ints, dst.at, index.at, dst.extents, src.at, src.extents, w
    )


def _max_pool_gradient(call: Call) -> None:
    op, memory = call.intrinsic, call.ldms
    assert isinstance(op, MaxPoolGradient), "leaf table"
    diff, index, out = call.boxes
    w = _strip(op.strip)
    windows.max_pool_gradient(
        memory.floats, memory.ints, diff.at, diff.extents, index.at, out.at, out.extents, w
    )


def _ave_pool(call: Call) -> None:
    op = call.intrinsic
    assert isinstance(op, AvePool), "leaf table"
    dst, src = call.boxes
    w = _strip(op.strip)
    windows.ave_pool(call.ldms.floats, dst.at, dst.extents, src.at, src.extents, w)


def _ave_pool_gradient(call: Call) -> None:
    op = call.intrinsic
    assert isinstance(op, AvePoolGradient), "leaf table"
    diff, out = call.boxes
    w = _strip(op.strip)
    windows.ave_pool_gradient(call.ldms.floats, diff.at, diff.extents, out.at, out.extents, w)


LEAVES: dict[type[Intrinsic], Callable[[Call], None]] = {
    Zero: _zero,
    ZeroOutside: _zero_outside,
    Widen: _widen,
    RlcGemm: _rlc_gemm,
    Broadcast: _broadcast,
    Add: _add,
    RowSum: _row_sum,
    Map: _map,
    ChannelSum: _channel_sum,
    Im2col: _im2col,
    Col2im: _col2im,
    MaxPool: _max_pool,
    MaxPoolGradient: _max_pool_gradient,
    AvePool: _ave_pool,
    AvePoolGradient: _ave_pool_gradient,
}
