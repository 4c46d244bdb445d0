"""The product in the LDMs of a mesh: right numbers, and cycles of a closed form that is exact."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from swcaffe.errors import DeadlockError, ProgramError, ScheduleError
from swcaffe.machine.pipeline import SW26010_PIPELINE
from swcaffe.machine.sw26010 import SW26010
from swcaffe.microkernel.gemm import Form
from swcaffe.microkernel.interpret import Cpe
from swcaffe.microkernel.isa import STACK, Code, Instruction, trace
from swcaffe.microkernel.mesh import Channel, Node, Role, run, step_cycles
from swcaffe.microkernel.spm_gemm import (
    FRAME,
    ROLES,
    SETTLED,
    TILE,
    Vectorise,
    spm_gemm_cycles,
    step,
    step_cost,
    step_simulated,
)

LAYOUTS: list[tuple[Vectorise, bool]] = [("m", False), ("m", True), ("n", False), ("n", True)]
ROWS, TILES, K = 2, 3, 3
"""Register tiles of one CPE's block, and its part of k."""


class Mesh:
    """2 x 2 CPEs with blocks of a product whose vector operand is called x, the other y."""

    def __init__(self, vectorise: Vectorise, contiguous: bool) -> None:
        self.vectorise: Vectorise = vectorise
        self.contiguous = contiguous
        rng = np.random.default_rng(7)
        long, short = TILE[0] * ROWS, TILE[1] * TILES
        self.x = rng.normal(size=(2, 2, K, long))
        self.y = rng.normal(size=(2, 2, K, short))
        self.c = rng.normal(size=(2, 2, short, long))
        self.cpes = {place: self.cpe(*place) for place in product(range(2), repeat=2)}

    def cpe(self, row: int, col: int) -> Cpe:
        """LDM: stack frame, x, y, C; x and C have vectors along their last axis."""
        x, y, c = self.x[row, col], self.y[row, col], self.c[row, col]
        stored = y if self.contiguous else y.T
        first_a = 8 * len(FRAME)
        first_b = first_a + 8 * x.size
        first_c = first_b + 8 * y.size
        frame = {
            "ldc": 8 * c.shape[1],
            "tiles": TILES,
            "all_rows": ROWS,
            "first_a": first_a,
            "first_b": first_b,
            "first_c": first_c,
            "la": 8 * x.shape[1],
            "lb": 8 * stored.shape[1],
            "line": 0,
            "row": row,
            "col": col,
        }
        words = [float(frame.get(name, 0)) for name in FRAME]
        ldm = np.concatenate([words, x.ravel(), stored.ravel(), c.ravel()])
        return Cpe(ldm, {STACK: 0})

    def form(self, row: int, col: int, line: int) -> Form:
        on_rows = "send" if col == line else "receive"
        on_cols = "send" if row == line else "receive"
        pair = (on_rows, on_cols) if self.vectorise == "m" else (on_cols, on_rows)
        return Form(*pair, self.vectorise, self.contiguous)  # type: ignore[arg-type]

    def run(self) -> None:
        """Both steps; senders first, so that what they send is there."""
        for line in range(2):
            order = sorted(self.cpes, key=lambda place: (place != (line, line), line not in place))
            for row, col in order:
                cpe = self.cpes[row, col]
                code = step(self.form(row, col, line), ROWS, TILES, K, SW26010_PIPELINE)
                cpe.run(trace(code))
                self.deliver(row, col)

    def deliver(self, row: int, col: int) -> None:
        sent = self.cpes[row, col].sent
        for other, cpe in self.cpes.items():
            if other != (row, col):
                cpe.arriving["row"].extend(sent["row"] if other[0] == row else [])
                cpe.arriving["col"].extend(sent["col"] if other[1] == col else [])
        sent["row"].clear()
        sent["col"].clear()


@pytest.mark.parametrize(("vectorise", "contiguous"), LAYOUTS)
def test_two_steps_on_a_2_x_2_mesh_compute_the_product(
    vectorise: Vectorise, contiguous: bool
) -> None:
    mesh = Mesh(vectorise, contiguous)
    mesh.run()
    for (row, col), cpe in mesh.cpes.items():
        want = mesh.c[row, col].copy()
        for t in range(2):
            # vectors along m: A(row, t) B(t, col); along n, with A and B exchanged
            x = mesh.x[row, t] if vectorise == "m" else mesh.x[t, col]
            y = mesh.y[t, col] if vectorise == "m" else mesh.y[row, t]
            want += np.einsum("ks,kl->sl", y, x)
        found = cpe.ldm[-want.size :].reshape(want.shape)
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)
        assert not cpe.arriving["row"] and not cpe.arriving["col"]


@pytest.mark.parametrize(("vectorise", "contiguous"), LAYOUTS)
@pytest.mark.parametrize("latency", [3, 4])
def test_the_closed_form_equals_the_simulation(
    vectorise: Vectorise, contiguous: bool, latency: int
) -> None:
    machine = SW26010_PIPELINE.with_load_latency(latency)
    for rows, tiles, k in [(3, 2, 2), (2, 2, 3), (1, 1, 4), (3, 4, 9)]:
        cost = step_cost(machine, k, vectorise, contiguous)
        want = step_simulated(rows, tiles, k, machine, vectorise, contiguous)
        assert cost.cycles(rows, tiles, k) == want, (rows, tiles, k)
        assert cost.k == 16 or k < SETTLED


def test_the_machine_says_what_the_simulation_says() -> None:
    kernel = SW26010.kernel
    assert kernel.cycles_per_k == step_cost(SW26010_PIPELINE, 16).k
    assert (kernel.tile_n, kernel.tile_m) == TILE


def test_a_product_is_its_steps() -> None:
    cost = step_cost(SW26010_PIPELINE, 16)
    assert spm_gemm_cycles(256, 96, 128, SW26010_PIPELINE) == 8 * cost.cycles(2, 3, 16)
    assert spm_gemm_cycles(96, 256, 128, SW26010_PIPELINE, vectorise="n") == 8 * step_cost(
        SW26010_PIPELINE, 16, "n"
    ).cycles(2, 3, 16)


@pytest.mark.parametrize("shape", [(64, 32, 64), (128, 48, 64), (128, 32, 60), (128, 32, 8)])
def test_products_that_do_not_fit_the_tiles_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ProgramError, match="does not fit tiles of 16 x 4 on a mesh of 8 x 8"):
        spm_gemm_cycles(*shape, SW26010_PIPELINE)


def test_a_step_needs_as_many_steps_of_k_as_its_loop_overlaps() -> None:
    with pytest.raises(ScheduleError, match="a loop of 1 iterations is too short for 2 stages"):
        step(Form("send", "send"), 1, 1, 1, SW26010_PIPELINE)


def test_the_last_cpe_starts_two_bus_latencies_late() -> None:
    """Nothing but a message along the row, then along the column: 11 cycles and an issue each."""
    put, get = Instruction("putr", "", ("v",)), Instruction("getr", "w", ())
    put_c, get_c = Instruction("putc", "", ("v",)), Instruction("getc", "w", ())
    codes: dict[Role, Code] = {
        ("send", "send"): (put, put_c),
        ("send", "receive"): (get_c, put),
        ("receive", "send"): (get, put_c),
        ("receive", "receive"): (get, get_c),
    }
    done = step_cycles(codes, SW26010_PIPELINE)
    # put at 0, put_c at 1; getc at 12, its put at 13; the last getr at 24, getc (sent at 12) at 25
    assert done == {
        ("send", "send"): 2,
        ("send", "receive"): 14,
        ("receive", "send"): 13,
        ("receive", "receive"): 26,
    }


SIDE = 4


def whole_mesh(lines: list[int]) -> list[int]:
    """Cycles of all CPEs of a 4 x 4 mesh in steps with these sending lines, one after the other."""
    places = list(product(range(SIDE), repeat=2))
    capacity = 2 * SW26010_PIPELINE.bus.depth
    # one queue a receiver and bus: senders of later steps come behind those of earlier ones
    queues = {(place, bus): Channel(capacity) for place in places for bus in ("row", "col")}
    nodes, codes = [], []
    for row, col in places:
        inputs = {bus: queues[(row, col), bus] for bus in ("row", "col")}
        outputs = {
            "row": [queues[(row, c), "row"] for c in range(SIDE) if c != col],
            "col": [queues[(r, col), "col"] for r in range(SIDE) if r != row],
        }
        nodes.append(Node(SW26010_PIPELINE, f"{row},{col}", inputs, outputs))
        steps = []
        for line in lines:
            form = Form("send" if col == line else "receive", "send" if row == line else "receive")
            steps += step(form, ROWS, TILES, K, SW26010_PIPELINE)
        codes.append(tuple(steps))
    return run(nodes, codes)


@pytest.mark.parametrize("line", range(SIDE))
def test_four_cpes_take_as_long_as_the_whole_mesh(line: int) -> None:
    done = whole_mesh([line])
    four = step_simulated(ROWS, TILES, K, SW26010_PIPELINE, "m", False)
    assert max(done) == four
    others = [n for n, place in enumerate(product(range(SIDE), repeat=2)) if line not in place]
    assert {done[n] for n in others} == {four}


def test_steps_of_the_whole_mesh_follow_each_other_as_their_sum_says() -> None:
    """The CPE that sends in the next step is one of the last of this one."""
    one = step_simulated(ROWS, TILES, K, SW26010_PIPELINE, "m", False)
    whole = max(whole_mesh([0, 1, 2, 3]))
    assert whole == 4 * one


def test_a_sender_waits_while_both_buffers_are_full() -> None:
    put, get = Instruction("putr", "", ("v",)), Instruction("getr", "w", ())
    late = [Instruction("vaddd", "x", ("x", "x"))] * 10
    codes: dict[Role, Code] = {
        ("send", "send"): (put,) * 9,
        ("send", "receive"): (),
        ("receive", "send"): (*late, *(get,) * 9),
        ("receive", "receive"): (),
    }
    # ten dependent additions, the last at 63, paired with the first get: the ninth put at 64
    assert step_cycles(codes, SW26010_PIPELINE)["send", "send"] in (64, 65)
    assert step_cycles(codes, SW26010_PIPELINE)["receive", "send"] == 64 + 11 + 1


def test_a_deadlock_names_every_cpe_that_waits_and_on_what() -> None:
    codes: dict[Role, Code] = {role: () for role in ROLES}
    codes["receive", "send"] = (Instruction("getr", "w", ()),)
    codes["send", "receive"] = (Instruction("putr", "", ("v",)),) * 9
    with pytest.raises(DeadlockError) as caught:
        step_cycles(codes, SW26010_PIPELINE)
    assert "send/receive waits for room on the row bus" in str(caught.value)
    assert "receive/send waits for message from the row bus" in str(caught.value)
