"""Intrinsic -> its leaf at mesh fidelity; a new intrinsic needs an entry here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from swcaffe.arrays import I64
from swcaffe.errors import DeadlockError
from swcaffe.execute.ldm import Box, Ldms
from swcaffe.execute.lockstep import kernels
from swcaffe.ir.intrinsic import Intrinsic
from swcaffe.ir.intrinsics.elementwise import Add, Broadcast, RowSum
from swcaffe.ir.intrinsics.fill import Zero, ZeroOutside
from swcaffe.ir.intrinsics.im2col import Col2im, Im2col, Windows
from swcaffe.ir.intrinsics.mesh_gemm import RlcGemm, Widen, matrix
from swcaffe.machine.events import Counters
from swcaffe.machine.spec import Machine

__all__ = ["LEAVES"]

Leaf: TypeAlias = Callable[[Ldms, Machine, Counters, Intrinsic, list[Box], Mapping[str, int]], None]


def _zero(
    ldms: Ldms, m: Machine, c: Counters, op: Intrinsic, boxes: list[Box], v: Mapping[str, int]
) -> None:
    box = boxes[0]
    kernels.clear(ldms.floats, box.at, box.extents, box.strides)


def _zero_outside(
    ldms: Ldms, m: Machine, c: Counters, op: Intrinsic, boxes: list[Box], v: Mapping[str, int]
) -> None:
    box, valid = boxes
    kernels.clear_outside(ldms.floats, box.at, box.extents, box.strides, valid.extents)


def _widen(
    ldms: Ldms, m: Machine, c: Counters, op: Intrinsic, boxes: list[Box], v: Mapping[str, int]
) -> None:
    assert isinstance(op, Widen), "leaf table"
    target, source = boxes
    rows, cols = matrix(source.buffer.shape)
    kernels.widen(ldms.doubles, target.at, ldms.floats, source.at, rows, cols, op.transpose)


def _rlc_gemm(
    ldms: Ldms,
    machine: Machine,
    counters: Counters,
    op: Intrinsic,
    boxes: list[Box],
    values: Mapping[str, int],
) -> None:
    assert isinstance(op, RlcGemm), "leaf table"
    kernel, mesh = machine.kernel, machine.mesh
    vectors = kernel.tile_n // kernel.lanes
    if max(kernel.tile_m, vectors) > machine.register_bus.depth:
        raise DeadlockError(
            f"all {mesh.cpes} CPEs wait to send: the kernel sends {kernel.tile_m} and {vectors} "
            f"messages before it receives, receive queues hold {machine.register_bus.depth}"
        )
    c, a, b = boxes
    (m, n), a_shape = matrix(c.buffer.shape), matrix(a.buffer.shape)
    k = a_shape[0] if op.trans_a else a_shape[1]
    counts = np.zeros(3, np.int64)
    kernels.rlc_gemm(
        ldms.floats,
        c.at,
        ldms.doubles,
        a.at,
        b.at,
        (m, n, k),
        op.step.evaluate(values),
        op.trans_a,
        op.accumulate,
        (mesh.rows, mesh.cols),
        (kernel.tile_m, kernel.tile_n),
        kernel.lanes,
        counts,
    )
    counters.row_messages += int(counts[0])
    counters.col_messages += int(counts[1])
    counters.flops += int(counts[2])


def _broadcast(
    ldms: Ldms, m: Machine, c: Counters, op: Intrinsic, boxes: list[Box], v: Mapping[str, int]
) -> None:
    assert isinstance(op, Broadcast), "leaf table"
    target, source = boxes
    shape, axis = target.buffer.shape, op.axis
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    kernels.broadcast(ldms.floats, target.at, source.at, outer, shape[axis], inner)


def _add(
    ldms: Ldms, m: Machine, c: Counters, op: Intrinsic, boxes: list[Box], v: Mapping[str, int]
) -> None:
    target, source = boxes
    kernels.add(ldms.floats, target.at, target.strides, source.at, source.strides, source.extents)


def _row_sum(
    ldms: Ldms, m: Machine, c: Counters, op: Intrinsic, boxes: list[Box], v: Mapping[str, int]
) -> None:
    target, source = boxes
    kernels.row_sum(ldms.floats, target.at, source.at, source.extents, source.strides)


def _windows(windows: Windows) -> I64:
    pairs = (windows.out, windows.kernel, windows.stride, windows.dilation, windows.shift)
    return np.array([value for pair in pairs for value in pair], np.int64)


def _im2col(
    ldms: Ldms, m: Machine, c: Counters, op: Intrinsic, boxes: list[Box], v: Mapping[str, int]
) -> None:
    assert isinstance(op, Im2col), "leaf table"
    columns, strip = boxes
    w = _windows(op.windows)
    cpe, factors = np.arange(m.mesh.cpes), dict(op.first.terms)
    row, col = cpe // m.mesh.cols, cpe % m.mesh.cols
    kernels.im2col(
        ldms.floats,
        columns.at,
        columns.strides,
        columns.extents,
        factors.get("ROW", 0) * row + factors.get("COL", 0) * col,
        strip.at,
        strip.strides,
        strip.extents,
        w,
    )


def _col2im(
    ldms: Ldms, m: Machine, c: Counters, op: Intrinsic, boxes: list[Box], v: Mapping[str, int]
) -> None:
    assert isinstance(op, Col2im), "leaf table"
    strip, columns = boxes
    w = _windows(op.windows)
    kernels.col2im(
        ldms.floats, strip.at, strip.strides, columns.at, columns.strides[1:], strip.extents, w
    )


LEAVES: dict[type[Intrinsic], Leaf] = {
    Zero: _zero,
    ZeroOutside: _zero_outside,
    Widen: _widen,
    RlcGemm: _rlc_gemm,
    Broadcast: _broadcast,
    Add: _add,
    RowSum: _row_sum,
    Im2col: _im2col,
    Col2im: _col2im,
}
