"""Generated C as text: what is checked in, where CPEs wait for each other, what is refused."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from host_battery import build, needs_gcc, programs_of, run

from swcaffe.codegen.files import sources, write_sources
from swcaffe.errors import DataError, ProgramError
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.ir.buffer import Along, Buffer, Region, Scope
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.expr import COL, ROW, ZERO, mod, var
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
from swcaffe.operators.convolution import ConvBackwardData, ConvForward, ConvGeometry
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.templates import conv_im2col, conv_ldm, gemm  # noqa: F401  each registers

GOLDEN = Path(__file__).parent.parent / "golden"
BARRIER = "athread_syn(ARRAY_SCOPE, 0xffff);"


def golden_texts():
    spec = importlib.util.spec_from_file_location("codegen_update", GOLDEN / "codegen_update.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.texts()


TEXTS = golden_texts()


@pytest.mark.parametrize("name", TEXTS)
def test_generated_text_is_as_reviewed(name):
    wanted = (GOLDEN / name).read_text(encoding="utf-8")
    assert TEXTS[name] == wanted, "run tests/golden/codegen_update.py and review"


def test_no_reviewed_text_is_left_over():
    assert {path.name for path in GOLDEN.glob("codegen_*.[ch]")} == set(TEXTS)


def slave_text(op, machine, name):
    program = programs_of(op, machine)[name]
    return sources({"it": program}, machine)["it_slave.c"]


def test_a_product_that_accumulates_needs_no_barrier_as_each_cpe_keeps_its_elements():
    text = slave_text(Gemm(17, 33, 70, accumulate=True), TOY, "gemm")
    assert "sw_get(&c_reply[0], C" in text
    assert BARRIER not in text


@pytest.mark.parametrize("kind", [ConvForward, ConvBackwardData])
def test_cpes_wait_before_they_read_a_column_matrix_that_others_wrote(kind):
    g = ConvGeometry(4, 3, 5, (6, 7), (3, 3), (1, 1), (0, 0), (1, 1))
    machine = replace(TOY, ldm=replace(TOY.ldm, capacity_bytes=16384))
    op = ConvForward(g) if kind is ConvForward else ConvBackwardData(g)
    (name,) = (n for n in programs_of(op, machine) if n.endswith("im2col"))
    assert BARRIER in slave_text(op, machine, name)


def relay(rounds):
    """x shifted by a row of CPEs, back and forth: every round reads what the other row wrote."""
    b = Builder("relay", (2, 2))
    x = b.param("x", (4, 8))
    tile = b.tile("T", (4, 8), (Along.MESH, Along.NONE))
    with b.loop("r", rounds):
        b.get(box(tile), box(x), Reply("w"))
        b.wait(Reply("w"))
        b.put(box(tile), box(x), Reply("w"))
        b.wait(Reply("w"))
    return b.build()


def test_a_tile_put_back_where_it_was_needs_no_barrier():
    assert BARRIER not in sources({"relay": relay(3)}, TOY)["relay_slave.c"]


def gossip():
    """A CPE-level program: column 0 sends its eight numbers along its row, all put what they have."""
    x = Buffer("x", (2, 8), Scope.MEM)
    y = Buffer("y", (2, 2, 8), Scope.MEM)
    t = Buffer("T", (2, 8), Scope.LDM, slots=1)

    def row(buffer, *start):
        return Region(buffer, (*start, ZERO), (1,) * len(start) + (8,))

    own = row(t, ZERO)
    get = Copy(Direction.GET, own, row(x, ROW), (0, 1), Reply("w", mod(var("r"), 2)))
    talk = If(COL, Seq((Send(Bus.ROW, own),)), Seq((Recv(Bus.ROW, own),)))
    put = Copy(Direction.PUT, own, row(y, ROW, COL), (0, 2), Reply("w", mod(var("r"), 2)))
    wait = Wait(Reply("w", mod(var("r"), 2)), 1)
    loop = For("r", 3, Seq((get, wait, talk, put, wait)))
    return Program("gossip", (2, 2), (x, y), Seq((Alloc(t), loop)), "cpe")


@needs_gcc
def test_messages_written_by_hand_do_what_the_mesh_executor_does(tmp_path):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((2, 8)).astype(np.float32)
    wanted, found = np.zeros((2, 2, 8), np.float32), np.zeros((2, 2, 8), np.float32)
    events = MeshExecutor(gossip(), TOY).run([x, wanted])
    build(tmp_path, {"gossip": gossip()}, TOY)
    done = run(tmp_path, "gossip", [x, found])
    assert done.returncode == 0, done.stderr
    assert np.array_equal(found, wanted)
    assert np.array_equal(wanted, np.stack([x, x], axis=1))
    assert f"row_messages {events.row_messages} col_messages 0 " in done.stdout


def test_a_name_that_c_has_taken_is_refused():
    program = relay(2)
    with pytest.raises(ProgramError, match="'double' cannot be a name in C\n  fix: rename"):
        sources({"double": program}, TOY)
    with pytest.raises(ProgramError, match="'conv-1' cannot be a name in C"):
        sources({"conv-1": program}, TOY)


def test_a_program_for_another_mesh_is_refused():
    with pytest.raises(ProgramError, match=r"relay is for a mesh of \(2, 2\), not for sw26010"):
        sources({"relay": relay(2)}, SW26010)


@dataclass(frozen=True, slots=True)
class Unheard(Zero):
    """An intrinsic without C text."""

    name = "unheard"


def test_an_intrinsic_without_c_text_is_refused_by_name():
    b = Builder("it", (2, 2))
    b.apply(Unheard(), box(b.tile("T", (4, 8), (Along.MESH, Along.NONE))))
    with pytest.raises(ProgramError, match="intrinsic unheard has no C text\n  fix: known: add"):
        sources({"it": b.build()}, TOY)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot make .*file"):
        write_sources(tmp_path / "file", {"relay": relay(2)}, TOY)
