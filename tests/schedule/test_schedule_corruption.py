"""Programs are what computes: one copy cut short, moved or lost its partner, and the result is wrong.

Each copy of a program of every family is spoiled in turn. At tile fidelity the result then differs
from the definition by more than rounding; at mesh fidelity it does, or the machine refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from template_battery import random_arrays, relative_error, template

from swcaffe.errors import SwcaffeError
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.execute.tile import CoreGroups, TileExecutor
from swcaffe.ir.buffer import Scope
from swcaffe.ir.builder import box
from swcaffe.ir.expand import expand
from swcaffe.ir.expr import Affine
from swcaffe.ir.intrinsics.map import Map
from swcaffe.ir.intrinsics.mesh_gemm import RlcGemm
from swcaffe.ir.stmt import Alloc, Apply, Copy, Program, Seq, Stmt
from swcaffe.ir.vector import VectorCode
from swcaffe.ir.visitor import Rewriter
from swcaffe.machine.toy import TOY
from swcaffe.operators.activation import ActivationForward
from swcaffe.operators.affine import AffineForward
from swcaffe.operators.base import Operator
from swcaffe.operators.batch_norm import BatchNormForward
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.layout import Concat
from swcaffe.operators.lrn import LrnForward, LrnGeometry
from swcaffe.operators.pooling import AvePoolBackward, MaxPoolForward, PoolGeometry
from swcaffe.operators.update import SgdUpdate
from swcaffe.schedule.templates import (  # noqa: F401  each registers itself
    conv_im2col,
    conv_ldm,
    conv_weights,
    conv_weights_ldm,
    gemm,
    join,
    lrn,
    pooling,
    walk,
)

SMALL = replace(TOY, name="small", ldm=replace(TOY.ldm, capacity_bytes=16384))
G = ConvGeometry(4, 3, 5, (6, 5), (3, 2), (1, 1), (1, 0), (1, 1))
FAMILIES: list[tuple[Operator, str]] = [
    (Gemm(9, 17, 29, trans_b=True, has_bias=True), "gemm"),
    (ConvForward(G), "conv_forward_ldm"),
    (ConvForward(G), "conv_forward_im2col"),
    (ConvBackwardData(G), "conv_backward_data_ldm"),
    (ConvBackwardData(G), "conv_backward_data_im2col"),
    (ConvBackwardWeights(G), "conv_backward_weights_ldm"),
    (ConvBackwardWeights(G), "conv_backward_weights_im2col"),
    (ActivationForward("tanh", 99), "walk"),
    (AffineForward(5, 4, 9, True, True), "walk"),
    (BatchNormForward(4, 6, 8, 1e-5), "walk"),
    (SgdUpdate(99, "L2", 0.9), "walk"),
    (MaxPoolForward(PoolGeometry(3, 3, (6, 6), (2, 2), (2, 2), (0, 0))), "pooling"),
    (AvePoolBackward(PoolGeometry(3, 3, (6, 6), (3, 3), (2, 2), (0, 0))), "pooling"),
    (LrnForward(LrnGeometry(3, 4, 3, 3, 3, 0.5, 0.75)), "lrn"),
    (Concat(5, (6, 9)), "join"),
]

NAN = Map(VectorCode(0, (float("nan"),), (), (0,)), ())


class _Poisoned(Rewriter):
    """Every tile is undefined when it is allocated, not what an earlier tile has left there."""

    def seq(self, stmt: Seq) -> Seq:
        body: list[Stmt] = []
        for part in super().seq(stmt).body:
            body.append(part)
            if isinstance(part, Alloc) and part.buffer.scope is Scope.LDM:
                for slot in range(part.buffer.slots):
                    body.append(Apply(NAN, (box(part.buffer, slot=Affine(slot)),)))
        return Seq(tuple(body))


Spoil = Callable[[Copy], "Stmt | None"]


class _Spoiler(Rewriter):
    """Applies `spoil` to copy number `wanted` alone; `count` copies were seen."""

    def __init__(self, wanted: int, spoil: Spoil) -> None:
        self.wanted, self.spoil, self.count, self.done = wanted, spoil, 0, False

    def copy(self, stmt: Copy) -> Stmt:
        self.count += 1
        if self.count - 1 != self.wanted:
            return stmt
        found = self.spoil(stmt)
        self.done = found is not None
        return stmt if found is None else found


def shorter(copy: Copy) -> Copy | None:
    """Without the last of its outermost rows."""
    sizes = list(copy.ldm.sizes)
    axis = next((d for d, n in enumerate(sizes) if n > 1), None)
    if axis is None:
        return None
    sizes[axis] -= 1
    outer = list(copy.mem.shape)
    outer[copy.axes[axis]] = sizes[axis]
    ldm, mem = replace(copy.ldm, shape=tuple(sizes)), replace(copy.mem, shape=tuple(outer))
    return replace(copy, ldm=ldm, mem=mem)


def moved(copy: Copy) -> Copy | None:
    """By one element, where memory has one more."""
    for axis, (start, size) in enumerate(zip(copy.mem.start, copy.mem.sizes, strict=True)):
        if not start.terms and start.const > 0:
            begin = (*copy.mem.start[:axis], start - 1, *copy.mem.start[axis + 1 :])
        elif not start.terms and size < copy.mem.buffer.shape[axis]:
            begin = (*copy.mem.start[:axis], start + 1, *copy.mem.start[axis + 1 :])
        else:
            continue
        return replace(copy, mem=replace(copy.mem, start=begin))
    return None


def outcome(program: Program, op: Operator, inputs, outputs, fidelity: str):
    """The outputs, or None where the machine refuses."""
    results = [out.copy() for out in outputs]
    try:
        if fidelity == "mesh":
            MeshExecutor(program, SMALL).run([*inputs, *results])
        else:
            body = _Poisoned().seq(program.body)
            groups = CoreGroups(SMALL, threads=1)
            TileExecutor(replace(program, body=body), groups).run([*inputs, *results])
    except SwcaffeError:
        return None
    return results


def wrong(op: Operator, found, wanted) -> bool:
    if found is None:
        return True
    with np.errstate(all="ignore"):
        errors = [relative_error(f, w) for f, w in zip(found, wanted, strict=True)]
    return not all(error <= op.tolerance() for error in errors)


@pytest.mark.parametrize("spoil", [shorter, moved])
@pytest.mark.parametrize(("op", "name"), FAMILIES, ids=[name for _, name in FAMILIES])
def test_every_spoiled_copy_changes_the_result(op, name, spoil):
    t = template(op, name)
    program = t.build(op, t.shortlist(op, SMALL, 1)[0], SMALL)
    inputs, outputs = random_arrays(op)
    wanted = [out.copy() for out in outputs]
    op.run_reference(*inputs, *wanted)
    for fidelity in ("tile", "mesh"):
        assert not wrong(op, outcome(program, op, inputs, outputs, fidelity), wanted)
    number, spoiled = 0, 0
    while True:
        rewriter = _Spoiler(number, spoil)
        body = rewriter.visit(program.body)
        assert isinstance(body, Seq)
        if number >= rewriter.count:
            break
        if rewriter.done:
            spoiled += 1
            for fidelity in ("tile", "mesh"):
                found = outcome(replace(program, body=body), op, inputs, outputs, fidelity)
                assert wrong(op, found, wanted), f"copy {number} at {fidelity} fidelity"
        number += 1
    assert spoiled or spoil is moved


class _Misrouted(Rewriter):
    """The first broadcast step comes from another column and row."""

    done = False

    def apply(self, stmt: Apply) -> Stmt:
        if not isinstance(stmt.intrinsic, RlcGemm) or self.done or stmt.intrinsic.step.terms:
            return stmt
        self.done = True
        return replace(stmt, intrinsic=replace(stmt.intrinsic, step=stmt.intrinsic.step + 1))


def test_a_broadcast_from_the_wrong_cpes_changes_the_result():
    op = Gemm(9, 17, 29, trans_b=True)
    t = template(op, "gemm")
    program = expand(t.build(op, t.shortlist(op, SMALL, 1)[0], SMALL))
    inputs, outputs = random_arrays(op)
    wanted = [out.copy() for out in outputs]
    op.run_reference(*inputs, *wanted)
    rewriter = _Misrouted()
    body = rewriter.visit(program.body)
    assert isinstance(body, Seq) and rewriter.done
    assert wrong(op, outcome(replace(program, body=body), op, inputs, outputs, "mesh"), wanted)
