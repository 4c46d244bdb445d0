"""The mesh executor: what the machine forbids is found on the CPE that does it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swcaffe.errors import DeadlockError, LdmError, ProgramError
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.ir.buffer import Along, Buffer, Scope
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.expand import expand
from swcaffe.ir.expr import COL, ROW, Affine, var
from swcaffe.ir.intrinsics.elementwise import Add
from swcaffe.ir.intrinsics.fill import Zero
from swcaffe.ir.stmt import (
    Alloc,
    Bus,
    Copy,
    Direction,
    For,
    If,
    Program,
    Recv,
    Reply,
    Send,
    Seq,
    Wait,
)
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.templates.gemm import GemmTemplate

GRID = (Along.ROW, Along.COL)
R = Reply("r")


def run(builder_or_program, *arrays, machine=TOY):
    program = builder_or_program
    if isinstance(program, Builder):
        program = program.build()
    return MeshExecutor(program, machine).run(arrays)


def pair():
    b = Builder("test", (2, 2))
    return b, b.param("x", (4, 4)), b.param("y", (4, 4))


def arrays():
    return np.arange(16, dtype=np.float32), np.zeros(16, np.float32)


def test_a_tile_passes_through_the_ldms_and_is_counted():
    b, x, y = pair()
    tile = b.tile("t", (4, 4), GRID)
    b.get(box(tile), box(x), R)
    b.wait(R)
    b.put(box(tile), box(y), R)
    b.wait(R)
    source, target = arrays()
    events = run(b, source, target)
    assert (target == source).all()
    assert (events.dma_get_bytes, events.dma_put_bytes) == (64, 64)
    assert (
        events.dma_transactions == 4 * 2 * 2
    )  # two rows of 8 B, all in one 128 B line, a block each
    assert events.dma_descriptors == 4 * 2  # one strided request each way
    assert events.ldm_peak_bytes == 32


def test_uninitialised_read_names_cpe_statement_and_loop():
    b, _, y = pair()
    tile = b.tile("t", (4, 4), GRID)
    b.apply(Zero(), box(tile, 2))  # the CPEs of row 0 only
    with b.loop("i", 2):
        b.put(box(tile), box(y), R)
    with pytest.raises(LdmError) as caught:
        run(b, *arrays())
    assert "CPE (1, 0) puts from t, which was never written" in str(caught.value)
    assert caught.value.where.startswith("test: put t[:2, :2] -> y")
    assert caught.value.where.endswith("(i = 0)")


def test_storage_of_an_earlier_scope_is_undefined():
    b, _, y = pair()
    for first in (True, False):
        with b.scope():
            tile = b.tile("t", (4, 4), GRID)
            if first:
                b.apply(Zero(), box(tile))
            b.put(box(tile), box(y), R)
            b.wait(R)
    with pytest.raises(LdmError, match="which was never written"):
        run(b, *arrays())


def test_read_before_the_copy_has_arrived():
    b, x, _ = pair()
    tile, total = b.tile("t", (4, 4), GRID), b.tile("s", (4, 4), GRID)
    b.apply(Zero(), box(total))
    b.get(box(tile), box(x), R)
    b.apply(Add(), box(total), box(tile))
    with pytest.raises(LdmError, match=r"CPE \(0, 0\) reads t, which a copy still fills"):
        run(b, *arrays())


def test_double_buffer_overwritten_too_early():
    b, x, y = pair()
    tile = b.tile("t", (4, 4), GRID)
    b.get(box(tile), box(x), R)
    b.wait(R)
    b.put(box(tile), box(y), R)
    b.get(box(tile), box(x), Reply("s"))
    with pytest.raises(LdmError, match=r"CPE \(0, 0\) gets into t, which a copy still reads"):
        run(b, *arrays())


def test_wait_for_copies_that_nobody_issued():
    b, _, _ = pair()
    b.wait(R)
    with pytest.raises(ProgramError, match="0 copies were issued"):
        run(b, *arrays())


def test_program_that_ends_with_a_copy_under_way():
    b, x, _ = pair()
    b.get(box(b.tile("t", (4, 4), GRID)), box(x), R)
    with pytest.raises(ProgramError, match="ends before replies r are awaited"):
        run(b, *arrays())


def test_ldm_overflow():
    b, _, _ = pair()
    b.tile("t", (64, 64), GRID)
    with pytest.raises(LdmError, match="4096 B of 2048 B LDM on every CPE"):
        run(b, *arrays())


def cpe_program(*body, buffers=()):
    return Program("bus", (2, 2), (), Seq((*map(Alloc, buffers), *body)), level="cpe")


def ldm(name, count):
    return Buffer(name, (count,), Scope.LDM, "f64")


def test_messages_arrive_in_order_and_are_counted():
    """Column 0 broadcasts twice along its row; row 1 sends the difference down... and up."""
    x = Builder("in", (2, 2)).param("x", (2, 2, 8))
    y = Buffer("y", (2, 2, 8), Scope.MEM)
    tile = Buffer("t", (1, 1, 8), Scope.LDM)
    other = Buffer("u", (1, 1, 8), Scope.LDM)
    block = (ROW, COL, Affine())

    def mem(buffer):
        return replace(box(buffer, 1, 1), start=block)

    program = Program(
        "broadcast",
        (2, 2),
        (x, y),
        Seq(
            (
                Alloc(tile),
                Alloc(other),
                Copy(Direction.GET, box(tile), mem(x), (0, 1, 2), R),
                Wait(R, 1),
                If(
                    COL,
                    Seq((Send(Bus.ROW, box(tile)),)),
                    Seq((Recv(Bus.ROW, box(tile)),)),
                ),
                If(
                    ROW - 1,
                    Seq((Send(Bus.COL, box(tile)),)),
                    Seq((Recv(Bus.COL, box(tile)),)),
                ),
                Copy(Direction.PUT, box(tile), mem(y), (0, 1, 2), R),
                Wait(R, 1),
            )
        ),
        level="cpe",
    )
    source = np.arange(32, dtype=np.float32)
    target = np.zeros(32, np.float32)
    events = MeshExecutor(program, TOY).run((source, target))
    assert (target.reshape(4, 8) == source.reshape(2, 2, 8)[1, 0]).all()
    assert (events.row_messages, events.col_messages) == (4, 4)


def test_deadlock_names_every_waiting_cpe_and_on_what():
    tile = ldm("t", 4)
    program = cpe_program(Recv(Bus.ROW, box(tile)), buffers=(tile,))
    with pytest.raises(DeadlockError) as caught:
        run(program)
    text = str(caught.value)
    assert "4 CPEs wait for ever" in text
    for place in ("(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"):
        assert f"CPE {place} waits to receive t[:4] on its row bus" in text


def zero(buffer):
    from swcaffe.ir.stmt import Apply

    return Apply(Zero(), (box(buffer),))


def test_deadlock_of_full_queues():
    """Everybody sends more than a receive queue holds before anybody receives."""
    tile = Buffer("t", (20,), Scope.LDM)
    body = (zero(tile), Send(Bus.COL, box(tile)), Recv(Bus.COL, box(tile)))
    with pytest.raises(DeadlockError) as caught:
        run(cpe_program(*body, buffers=(tile,)))
    text = str(caught.value)
    assert "CPE (0, 1) waits to send t[:20] on its col bus: the queue of (1, 1) is full" in text
    shorter = Buffer("t", (16,), Scope.LDM)
    body = (zero(shorter), Send(Bus.COL, box(shorter)), Recv(Bus.COL, box(shorter)))
    events = run(cpe_program(*body, buffers=(shorter,)))
    assert events.col_messages == 4 * 4


def test_deadlock_of_one_cpe_that_differs():
    tile = Buffer("t", (4,), Scope.LDM)
    talk = If(
        COL,
        Seq((If(ROW - 1, Seq(()), Seq((Send(Bus.ROW, box(tile)),))),)),
        Seq((Recv(Bus.ROW, box(tile)),)),
    )
    with pytest.raises(DeadlockError) as caught:
        run(cpe_program(zero(tile), talk, buffers=(tile,)))
    assert "1 CPEs wait for ever:\nCPE (1, 1) waits to receive" in str(caught.value)


def test_messages_that_nobody_receives():
    tile = Buffer("t", (4,), Scope.LDM)
    with pytest.raises(
        ProgramError, match=r"CPE \(0, 0\) never receives 1 messages of its row bus"
    ):
        run(cpe_program(zero(tile), Send(Bus.ROW, box(tile)), buffers=(tile,)))


def test_only_messages_may_differ_between_cpes():
    tile = Buffer("t", (4,), Scope.LDM)
    with pytest.raises(ProgramError, match="only sends and receives may differ"):
        run(
            cpe_program(If(COL, Seq((zero(tile),)), Seq(())), For("i", 1, Seq(())), buffers=(tile,))
        )


def test_kernel_whose_messages_exceed_the_queues_deadlocks():
    op = Gemm(8, 32, 8)
    t = GemmTemplate()
    program = t.build(op, next(iter(t.space(op, TOY))), TOY)
    shallow = replace(TOY, register_bus=replace(TOY.register_bus, depth=3))
    arrays = [np.zeros(o.shape, np.float32) for o in (*op.inputs, *op.outputs)]
    with pytest.raises(DeadlockError, match="receive queues hold 3"):
        MeshExecutor(program, shallow).run(arrays)


def test_products_are_summed_in_double_and_rounded_once():
    """1 + 256 terms of 2^-26: float sums lose them all, one rounding of the double sum does not."""
    op = Gemm(8, 32, 257)
    t = GemmTemplate()
    roomy = replace(TOY, ldm=replace(TOY.ldm, capacity_bytes=1 << 16))
    config = next(c for c in t.space(op, roomy) if c["tile_k"] == 257)
    a = np.full(op.inputs[0].shape, 2.0**-13, np.float32)
    b = np.full(op.inputs[1].shape, 2.0**-13, np.float32)
    a[:, 0] = b[0] = 1
    c = np.zeros(op.outputs[0].shape, np.float32)
    MeshExecutor(t.build(op, config, roomy), roomy).run((a, b, c))
    assert (c == np.float32(1 + 2.0**-18)).all()


@pytest.mark.sw26010
def test_message_counts_of_one_product_follow_from_the_kernel():
    """8 steps of 4 scalars and 4 vectors for each register tile and k, on 8 rows and columns."""
    op = Gemm(64, 256, 16)
    t = GemmTemplate()
    config = next(
        c for c in t.space(op, SW26010) if (c["tile_m"], c["tile_n"], c["tile_k"]) == (32, 128, 16)
    )
    program = t.build(op, config, SW26010)
    arrays = [np.ones(o.shape, np.float32) for o in (*op.inputs, *op.outputs)]
    events = MeshExecutor(program, SW26010).run(arrays)
    tiles = (64 // 32) * (256 // 128)
    assert events.row_messages == events.col_messages == tiles * 8 * (16 // 8) * 4 * 8
    assert events.flops == op.flops
    assert (arrays[2] == 16).all()


def test_executor_takes_an_expanded_program():
    op = Gemm(8, 32, 8)
    t = GemmTemplate()
    program = expand(t.build(op, next(iter(t.space(op, TOY))), TOY))
    arrays = [np.ones(o.shape, np.float32) for o in (*op.inputs, *op.outputs)]
    MeshExecutor(program, TOY).run(arrays)
    assert (arrays[2] == 8).all()
    assert var("i") != Affine()
