"""What the machine would do wrong in silence: each fault names statement, loop values and CPE."""

from __future__ import annotations

import numpy as np
import pytest

from swcaffe.errors import DeadlockError, LdmError, ProgramError
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.ir.buffer import Along, Buffer, Scope
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.expr import COL, Affine, mod, var
from swcaffe.ir.intrinsics.elementwise import Add
from swcaffe.ir.intrinsics.fill import Zero
from swcaffe.ir.stmt import Alloc, Apply, Bus, For, If, Program, Recv, Reply, Send, Seq
from swcaffe.machine.toy import TOY

GRID = (Along.NONE, Along.ROW, Along.COL)
FLAT = (Along.ROW, Along.COL)


def start():
    b = Builder("faulty", (2, 2))
    x, y = b.param("x", (6, 4, 4)), b.param("y", (6, 4, 4))
    return b, x, y


def overflow():
    b, _, _ = start()
    with b.loop("i", 3):
        b.tile("large", (64, 64), FLAT)
    return b, LdmError, "4096 B of 2048 B LDM on every CPE", "alloc large", "i = 0"


def missing_wait():
    b, x, _ = start()
    total, tile = b.tile("s", (1, 4, 4), GRID), b.tile("t", (1, 4, 4), GRID)
    b.apply(Zero(), box(total))
    with b.loop("i", 3) as i:
        b.get(box(tile), box(x, (i, 1)), Reply("r"))
        b.apply(Add(), box(total), box(tile))
        b.wait(Reply("r"))
    return b, LdmError, "CPE (0, 0) reads t, which a copy still fills", "add s", "i = 0"


def race_on_a_double_buffer():
    """The tile after the next is fetched into the slot that is still being stored."""
    b, x, y = start()
    tile = b.tile("t", (1, 4, 4), GRID, 2)
    with b.loop("i", 4) as i:
        slot = mod(i, 2)
        b.get(box(tile, slot=slot), box(x, (i, 1)), Reply("in", slot))
        b.wait(Reply("in", slot))
        b.put(box(tile, slot=slot), box(y, (i, 1)), Reply("out", slot))
    return (
        b,
        LdmError,
        "CPE (0, 0) gets into t, which a copy still reads",
        "get t{(i) % 2}",
        "i = 2",
    )


def race_on_a_double_buffer_while_it_is_filled():
    """Two fetches of one slot: the second starts before the first has arrived."""
    b, x, _ = start()
    tile = b.tile("t", (1, 4, 4), GRID, 2)
    with b.loop("i", 4) as i:
        b.get(box(tile, slot=mod(i, 2)), box(x, (i, 1)), Reply("in", mod(i, 2)))
    return (
        b,
        LdmError,
        "CPE (0, 0) gets into t, which a copy still fills",
        "get t{(i) % 2}",
        "i = 2",
    )


def uninitialised():
    """The second tile of three rows is whole for mesh row 0 only."""
    b, x, y = start()
    tile = b.tile("t", (1, 4, 4), GRID)
    with b.loop("i", 2) as i, b.scope():
        b.get(box(tile, 1, 2), box(x, (i, 1), 2), Reply("r"))
        b.wait(Reply("r"))
        b.put(box(tile), box(y, (i, 1)), Reply("r"))
        b.wait(Reply("r"))
    return b, LdmError, "CPE (1, 0) puts from t, which was never written", "put t", "i = 0"


def out_of_range():
    b, x, _ = start()
    tile = b.tile("t", (1, 4, 4), GRID)
    with b.loop("i", 7) as i:
        b.get(box(tile), box(x, (i, 1)), Reply("r"))
        b.wait(Reply("r"))
    text = "CPE (0, 0) copies elements 96 to 101 of x, which has 96"
    return b, ProgramError, text, "get t", "i = 6"


def misaligned():
    b, x, _ = start()
    tile = b.tile("t", (1, 4, 4), GRID)
    with b.loop("i", 2) as i:
        b.get(box(tile), box(x, (i, 1)), Reply("r"))
        b.wait(Reply("r"))
    return b, ProgramError, "CPE (0, 0) copies x at 2 B beyond a multiple of 4 B", "get t", "i = 0"


FAULTS = [
    overflow,
    missing_wait,
    race_on_a_double_buffer,
    race_on_a_double_buffer_while_it_is_filled,
    uninitialised,
    out_of_range,
]


def run(program, x):
    y = np.zeros(96, np.float32)
    MeshExecutor(program, TOY).run([x, y])


@pytest.mark.parametrize("fault", [*FAULTS, misaligned], ids=lambda fault: fault.__name__)
def test_fault_names_statement_loop_values_and_cpe(fault):
    builder, kind, what, statement, loops = fault()
    shift = 2 if fault is misaligned else 0
    x = np.zeros(96 * 4 + 8, np.uint8)[shift : shift + 96 * 4].view(np.float32)
    with pytest.raises(kind) as caught:
        run(builder.build(), x)
    assert what in str(caught.value)
    assert caught.value.where.startswith(f"faulty: {statement}")
    assert caught.value.where.endswith(f"({loops})")


def test_register_bus_deadlock_names_statement_loop_values_and_every_cpe():
    """Column 0 sends in the first round; in the second nobody does."""
    tile = Buffer("t", (4,), Scope.LDM)
    talk = If(COL + var("i"), Seq((Send(Bus.ROW, box(tile)),)), Seq((Recv(Bus.ROW, box(tile)),)))
    clear = Apply(Zero(), (box(tile),))
    body = Seq((Alloc(tile), For("i", 2, Seq((clear, talk)))))
    program = Program("faulty", (2, 2), (), body, "cpe")
    with pytest.raises(DeadlockError) as caught:
        MeshExecutor(program, TOY).run([])
    text = str(caught.value)
    assert "4 CPEs wait for ever" in text
    for cpe in ("(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"):
        assert f"CPE {cpe} waits to receive t[:4] on its row bus" in text
    assert caught.value.where == "faulty: if COL + i == 0 (i = 1)"


def test_a_share_that_is_empty_copies_nothing_from_anywhere():
    """CPEs beyond the end of a tile have no elements, and no address."""
    b, x, y = start()
    tile = b.tile("t", (1, 8, 4), GRID)
    b.get(box(tile, 1, 4), box(x, (5, 1)), Reply("r"))
    b.wait(Reply("r"))
    b.put(box(tile, 1, 4), box(y, (Affine(5), 1)), Reply("r"))
    b.wait(Reply("r"))
    source, target = np.arange(96, dtype=np.float32), np.zeros(96, np.float32)
    MeshExecutor(b.build(), TOY).run([source, target])
    assert (target[80:] == source[80:]).all()
