"""Closed-form counts against walking over every block, and rates against published figures."""

from __future__ import annotations

import csv
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swcaffe.cost import constants
from swcaffe.cost.alignment import Blocks, blocks, transactions
from swcaffe.cost.count import CopyCount, count
from swcaffe.cost.model import CostModel
from swcaffe.cost.rates import copy_seconds, mpe_seconds, work_seconds
from swcaffe.errors import ProgramError
from swcaffe.ir.buffer import Along, Buffer, Scope
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.expr import COL, mod
from swcaffe.ir.intrinsics.elementwise import Add
from swcaffe.ir.intrinsics.fill import Zero
from swcaffe.ir.intrinsics.mesh_gemm import RlcGemm, Widen
from swcaffe.ir.stmt import Bus, If, Program, Recv, Reply, Send, Seq
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.activation import ActivationForward
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.templates.gemm import GemmTemplate

AXES = st.lists(st.tuples(st.integers(1, 70), st.integers(0, 300)), max_size=3)


@given(st.sampled_from([4, 32]), st.integers(1, 90), st.integers(0, 200), AXES)
def test_transactions_equal_those_of_every_block(line, length, start, axes):
    axes = [(min(extent, 12), stride) for extent, stride in axes]
    walked = 0
    for index in itertools.product(*(range(extent) for extent, _ in axes)):
        first = start + sum(i * stride for i, (_, stride) in zip(index, axes, strict=True))
        walked += (first + length - 1) // line - first // line + 1
    steps = tuple(sorted((extent, stride % line) for extent, stride in axes))
    assert transactions(line, length, start % line, steps) == walked


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        (((3, 10, 4), (4, 1, 1)), Blocks(4, ((3, 10),), 1)),
        (((3, 4, 4), (4, 1, 1)), Blocks(12, (), 1)),
        (((3, 10, 6), (4, 1, 1)), Blocks(4, ((3, 10),), 3)),
        (((2, 50, 12), (3, 10, 4), (4, 1, 1)), Blocks(4, ((2, 50), (3, 10)), 2)),
        (((4, 1, 8), (8, 9, 1)), Blocks(1, ((4, 1), (8, 9)), 4)),
        (((1, 5, 5), (1, 3, 3)), Blocks(1, (), 1)),
    ],
    ids=["strided", "contiguous", "gaps in the ldm", "two strides", "transposed", "one element"],
)
def test_blocks_and_descriptors_of_a_copy(axes, expected):
    assert blocks(axes) == expected


def test_messages_of_single_cpes_have_no_closed_count():
    tile = Buffer("t", (4,), Scope.LDM)
    for stmt in (Send(Bus.ROW, box(tile)), Recv(Bus.ROW, box(tile)), If(COL, Seq(()), Seq(()))):
        program = Program("talk", (2, 2), (), Seq((stmt,)), "cpe")
        for reader in (lambda p: count(p, TOY), CostModel(TOY).price):
            with pytest.raises(ProgramError, match="messages of single CPEs"):
                reader(program)


def best_kernel(m, n, k):
    """GFLOPS of the LDM-resident primitive on one core group."""
    rows, cols = SW26010.mesh.rows, SW26010.mesh.cols
    step = RlcGemm(COL - COL)
    sizes = ((m // rows, n // cols), (m // rows, k // cols), (k // rows, n // cols))
    cycles = rows * step.work(sizes, SW26010).cycles
    return 2 * m * n * k / (cycles / SW26010.mesh.clock_hz) / 1e9


def test_kernel_rate_falls_with_short_k():
    rates = [best_kernel(128, 256, k) for k in (8, 64, 512, 2048)]
    assert rates == sorted(rates)
    assert rates[0] < 0.3 * rates[-1]


def test_dma_time_follows_the_published_formula():
    """Fang 2019, fig. 3.7: ten blocks on each of 64 CPEs, 28.0 GB/s, 200 cycles of latency."""
    published = {128: 26.74, 256: 27.36, 512: 27.67, 2048: 27.92}
    for size, gb_per_s in published.items():
        lines = 10 * size // 128
        copy = CopyCount(64 * 10 * size // 4, 64 * lines, 64, lines, 1)
        latency, transfer = copy_seconds(SW26010, copy, 1)
        assert 64 * 10 * size / (latency + transfer) / 1e9 == pytest.approx(gb_per_s, rel=0.04)


def test_misaligned_blocks_pay_for_whole_transactions():
    """144-byte blocks with gaps of one block touch two or three lines each."""
    copy = CopyCount(64 * 360, 64 * 20, 64, 20, 1)
    _, aligned = copy_seconds(SW26010, replace(copy, transactions=64 * 12, most_transactions=12), 1)
    _, misaligned = copy_seconds(SW26010, copy, 1)
    assert misaligned == pytest.approx(aligned * 20 / 12)


def test_one_cpe_alone_gets_its_own_limit():
    copy = CopyCount(1 << 20, 1 << 15, 1, 1 << 15, 1)
    _, transfer = copy_seconds(SW26010, copy, 1)
    assert (1 << 22) / transfer == pytest.approx(constants.SINGLE_CPE_DMA.value)
    assert copy_seconds(SW26010, CopyCount(0, 0, 0, 0, 0), 1) == (0, 0)


def test_every_constant_states_where_it_comes_from():
    for name in constants.__all__:
        value = getattr(constants, name)
        if isinstance(value, constants.Constant):
            assert value.unit and value.source and value.kind


def pipelined(overlap: bool) -> Program:
    """A hundred tiles fetched and added up, one ahead or one by one."""
    b = Builder("sum", (8, 8))
    x = b.param("x", (100, 8, 1024))
    grid = (Along.NONE, Along.ROW, Along.COL)
    tile, total = b.tile("t", (1, 8, 1024), grid, 2), b.tile("s", (1, 8, 1024), grid)
    b.apply(Zero(), box(total))
    if overlap:
        b.get(box(tile, slot=mod(COL - COL, 2)), box(x, 1), Reply("k"))
    with b.loop("k", 99) as k:
        ahead = k + 1 if overlap else k
        b.get(box(tile, slot=mod(ahead, 2)), box(x, (ahead, 1)), Reply("k", mod(ahead, 2)))
        b.wait(Reply("k", mod(k, 2)))
        for _ in range(6):
            b.apply(Add(), box(total), box(tile, slot=mod(k, 2)))
    if overlap:
        b.wait(Reply("k", mod(COL - COL + 99, 2)))
    return b.build()


def test_double_buffering_hides_the_shorter_of_copy_and_work():
    model = CostModel(SW26010)
    apart, together = model.price(pipelined(False)), model.price(pipelined(True))
    work, dma = apart.resources["P1"], apart.resources["DMA"]
    latency = 99 * SW26010.dma.start_cycles / SW26010.mesh.clock_hz
    assert apart.seconds == pytest.approx(work + dma + latency + SW26010.launch_s, rel=1e-6)
    assert together.seconds < apart.seconds - 0.9 * min(work, dma)
    assert together.seconds >= max(work, dma)


@pytest.mark.parametrize("shape", [(9, 17, 13), (33, 70, 45), (40, 40, 200)])
def test_price_of_a_loop_is_that_of_its_iterations_written_out(shape):
    """Extrapolation against following every iteration."""
    import swcaffe.cost.model as model_module

    op, t = Gemm(*shape), GemmTemplate()
    config = next(c for c in t.space(op, TOY) if c["tile_k"] <= 8)
    program = t.build(op, config, TOY)
    quick = CostModel(TOY).price(program)

    class Patient(model_module._Clock):
        def for_(self, stmt):
            outer, self.loops = self.loops, (*self.loops, (stmt.var, stmt.extent))
            for value in range(stmt.extent):
                self.values[stmt.var] = value
                self.seq(stmt.body)
            self.loops = outer

    clock = Patient(TOY)
    from swcaffe.ir.expand import expand

    clock.visit(expand(program).body)
    assert quick.seconds == pytest.approx(TOY.launch_s + clock.now, rel=0.02)
    for name, busy in clock.busy.items():
        assert quick.resources[name] == pytest.approx(busy)


def test_price_is_not_below_what_any_resource_needs():
    op, t = Gemm(64, 500, 800, trans_b=True), GemmTemplate()
    for config in t.shortlist(op, SW26010, 5):
        price = CostModel(SW26010).price(t.build(op, config, SW26010))
        assert price.seconds >= max(price.resources.values())
        assert price.bound in price.resources
        assert price.dma_bytes == count(t.build(op, config, SW26010), SW26010).dma_bytes


def test_widening_costs_a_load_and_a_store_for_each_register():
    work = Widen().work(((8, 16), (8, 16)), SW26010)
    assert work.cycles == 2 * 8 * 16 // 4
    assert work_seconds(SW26010, work) == pytest.approx(64 / 1.45e9)


def test_mpe_time_is_arithmetic_or_memory():
    arithmetic, memory = mpe_seconds(SW26010, ActivationForward("relu", 1000))
    assert arithmetic == pytest.approx(1000 / 1.45e9)
    assert memory == pytest.approx(8000 / 9.9e9)


FIGURE = Path(__file__).parents[2] / "data" / "measured" / "gemm_ldm_primitive.csv"


def test_kernel_rates_of_the_published_table_within_four_percent_and_the_best_within_half_of_one():
    """Nothing is fitted. The table calls the vectorised dimension M, which is our n."""
    with FIGURE.open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    ours = [best_kernel(int(r["N"]), int(r["M"]), int(r["K"])) for r in rows]
    published = [float(r["gflops"]) for r in rows]
    errors = [abs(a / b - 1) for a, b in zip(ours, published, strict=True)]
    assert np.mean(errors) <= 0.04
    assert max(ours) == pytest.approx(722.95, rel=0.005)
