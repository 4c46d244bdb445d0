"""The tile executor: threads do not change results, small faults in a program do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swcaffe.errors import LdmError, ProgramError
from swcaffe.execute.flatten import flatten
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.execute.tile import CoreGroups, TileExecutor
from swcaffe.ir.buffer import Along, Region
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.stmt import Apply, Bus, Copy, Direction, For, If, Recv, Reply, Send, Seq
from swcaffe.ir.visitor import Rewriter
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.convolution import ConvBackwardWeights, ConvForward, ConvGeometry
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.templates.conv_ldm import ConvForwardLdm
from swcaffe.schedule.templates.conv_weights import ConvBackwardWeightsIm2col
from swcaffe.schedule.templates.conv_weights_ldm import ConvBackwardWeightsLdm
from swcaffe.schedule.templates.gemm import GemmTemplate

GEOMETRY = ConvGeometry(8, 3, 5, (7, 6), (3, 3), (1, 1), (1, 1), (1, 1))


def arrays_of(op):
    rng = np.random.default_rng(3)
    operands = (*op.inputs, *op.outputs)
    return [rng.standard_normal(o.shape).astype(np.float32) for o in operands]


def first_program(template, op, machine=SW26010):
    return template.build(op, template.shortlist(op, machine, 1)[0], machine)


@pytest.mark.parametrize(
    ("template", "op"),
    [
        (GemmTemplate(), Gemm(70, 300, 90)),
        (ConvForwardLdm(), ConvForward(GEOMETRY)),
        (ConvBackwardWeightsIm2col(), ConvBackwardWeights(GEOMETRY)),
        (ConvBackwardWeightsLdm(), ConvBackwardWeights(GEOMETRY)),
    ],
)
def test_the_number_of_threads_does_not_change_a_bit(template, op):
    program = first_program(template, op)
    results = []
    for threads in (1, 2, 3):
        arrays = arrays_of(op)
        TileExecutor(program, CoreGroups(SW26010, threads)).run(arrays)
        results.append(arrays[len(op.inputs) :])
    for other in results[1:]:
        assert all((a == b).all() for a, b in zip(results[0], other, strict=True))


def test_read_only_inputs_are_taken():
    op = Gemm(8, 32, 8)
    arrays = arrays_of(op)
    arrays[0].flags.writeable = False
    TileExecutor(first_program(GemmTemplate(), op, TOY), CoreGroups(TOY, 1)).run(arrays)
    assert np.allclose(arrays[2], arrays[0] @ arrays[1], atol=1e-5)


def test_a_program_over_the_ldm_is_not_prepared():
    b = Builder("big", (2, 2))
    b.tile("t", (64, 64), (Along.ROW, Along.COL))
    with pytest.raises(LdmError, match="4096 B of 2048 B LDM"):
        TileExecutor(b.build(), CoreGroups(TOY, 1))


def test_loops_nested_too_deeply_are_refused():
    b = Builder("deep", (2, 2))
    body = Seq(())
    for depth in range(9):
        body = Seq((For(f"i{depth}", 2, body),))
    with pytest.raises(ProgramError, match="nested deeper than 8"):
        flatten(replace(b.build(), body=body))


@pytest.mark.parametrize("kind", ["send", "recv", "if"])
def test_messages_are_refused_at_tile_fidelity(kind):
    b = Builder("talk", (2, 2))
    region = box(b.tile("t", (4, 4), (Along.ROW, Along.COL)))
    stmt = {"send": Send(Bus.ROW, region), "recv": Recv(Bus.ROW, region)}.get(
        kind, If(region.start[0], Seq(()), Seq(()))
    )
    b.emit(stmt)
    with pytest.raises(ProgramError, match=f"`{kind}` belongs to CPE level"):
        flatten(b.build())


class Faulty(Rewriter):
    """One row less in every copy of a kind, or every product without its last rows of k."""

    def __init__(self, fault):
        self.fault = fault

    def copy(self, stmt):
        if self.fault != stmt.direction or stmt.ldm.sizes[0] < 2:
            return stmt
        size = stmt.ldm.sizes[0] - 1

        def cut(region: Region, axis: int) -> Region:
            shape = (*region.shape[:axis], size, *region.shape[axis + 1 :])
            return replace(region, shape=shape)

        return replace(stmt, ldm=cut(stmt.ldm, 0), mem=cut(stmt.mem, stmt.axes[0]))

    def apply(self, stmt):
        if self.fault == "product" and stmt.intrinsic.name == "mesh_gemm":
            c, a, b, *wide = stmt.args
            less = a.sizes[1] - 8
            a = replace(a, shape=(a.sizes[0], less))
            b = replace(b, shape=(less, b.sizes[1]))
            return Apply(stmt.intrinsic, (c, a, b, *wide))
        return stmt


@pytest.mark.parametrize("fault", [Direction.GET, Direction.PUT, "product"])
def test_a_corrupted_program_gives_a_wrong_result(fault):
    op = Gemm(64, 256, 64)
    program = first_program(GemmTemplate(), op)
    broken = replace(program, body=Faulty(fault).seq(program.body))
    assert broken != program
    right, wrong = arrays_of(op), arrays_of(op)
    groups = CoreGroups(SW26010, 1)
    groups.ldm[0][:] = 7
    TileExecutor(program, groups).run(right)
    groups.ldm[0][:] = 7
    TileExecutor(broken, groups).run(wrong)
    assert not np.allclose(right[2], wrong[2])


def test_a_corrupted_copy_is_caught_at_mesh_fidelity():
    op = Gemm(64, 256, 64)
    program = first_program(GemmTemplate(), op)
    broken = replace(program, body=Faulty(Direction.GET).seq(program.body))
    with pytest.raises(LdmError, match="which was never written"):
        MeshExecutor(broken, SW26010).run(arrays_of(op))


def test_copies_of_many_axes_are_merged_or_refused():
    b = Builder("axes", (2, 2))
    x = b.param("x", (3, 3, 3, 3, 3))
    none = Along.NONE
    tile = b.tile("t", (2, 2, 2, 2, 2), (Along.ROW, Along.COL, none, none, none))
    b.get(box(tile), box(x, 2, 2, 2, 2, 2), Reply("r"))
    b.emit(Copy(Direction.GET, box(tile), box(x, 2, 2, 2, 2, 2), (0, 1, 2, 3, 4), Reply("r")))
    with pytest.raises(ProgramError, match="a copy of 5 separate axes, at most 4 are supported"):
        flatten(b.build())
