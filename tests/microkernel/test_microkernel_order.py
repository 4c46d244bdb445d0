"""A reordered program computes what the program computes, and as fast as the pipelines allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swcaffe.errors import ScheduleError
from swcaffe.machine.pipeline import SW26010_PIPELINE
from swcaffe.microkernel.dependence import Edge, dependences
from swcaffe.microkernel.interpret import Cpe
from swcaffe.microkernel.isa import Code, Instruction, Loop, trace
from swcaffe.microkernel.order import Modulo, allocate, block, modulo
from swcaffe.microkernel.pipeline import cycles

VECTORS = ["v0", "v1", "v2", "v3"]
COUNT = (Instruction("subl", "k", ("k",), 1), Instruction("bgt", "", ("k",)))


def start(seed: int, k: int = 0) -> Cpe:
    rng = np.random.default_rng(seed)
    registers = {name: rng.normal(size=4) for name in VECTORS}
    cpe = Cpe(rng.normal(size=400), {**registers, "p": 0, "q": 1600, "k": k})  # type: ignore[dict-item]
    for bus in ("row", "col"):
        cpe.arriving[bus].extend(rng.normal(size=(60, 4)))
    return cpe


def same(left: Cpe, right: Cpe, but: Sequence[str] = ()) -> None:
    np.testing.assert_array_equal(left.ldm, right.ldm)
    for name in set(left.registers) - set(but):
        np.testing.assert_array_equal(left.registers[name], right.registers[name], err_msg=name)
    for bus in ("row", "col"):
        np.testing.assert_array_equal(left.sent[bus], right.sent[bus])


vectors = st.sampled_from(VECTORS)
offsets = st.sampled_from([0, 32, 64])
instructions = st.one_of(
    st.builds(lambda d, o: Instruction("vldd", d, ("p",), o), vectors, offsets),
    st.builds(lambda s, o: Instruction("vstd", "", (s, "q"), o), vectors, offsets),
    st.builds(lambda d, a, b: Instruction("vmad", d, (a, b, d)), vectors, vectors, vectors),
    st.builds(lambda d, a, b: Instruction("vsubd", d, (a, b)), vectors, vectors, vectors),
    st.builds(lambda d, o: Instruction("vldr", d, ("p",), o), vectors, offsets),
    st.builds(lambda s: Instruction("putr", "", (s,)), vectors),
    st.builds(lambda d: Instruction("getc", d, ()), vectors),
    st.builds(lambda r: Instruction("addl", r, (r,), 8), st.sampled_from("pq")),
)
bodies = st.lists(instructions, min_size=1, max_size=9).map(tuple)


@settings(max_examples=150, deadline=None)
@given(bodies, st.integers(0, 9))
def test_a_scheduled_block_computes_what_the_block_does(
    body: tuple[Instruction, ...], seed: int
) -> None:
    want, got = start(seed), start(seed)
    want.run(body)
    order = block(body, SW26010_PIPELINE)
    got.run(order)
    same(want, got)
    assert cycles(order, SW26010_PIPELINE) <= cycles(body, SW26010_PIPELINE) + 1


@settings(max_examples=100, deadline=None)
@given(bodies, st.integers(0, 9), st.integers(0, 4))
def test_a_pipelined_loop_computes_what_the_loop_does(
    body: tuple[Instruction, ...], seed: int, more: int
) -> None:
    found = modulo((*body, *COUNT), SW26010_PIPELINE)
    times = found.stages + more
    want, got = start(seed, times), start(seed, more + 1)
    want.run(trace((Loop((*body, *COUNT), times),)))
    fill, kernel, drain = found.blocks(times)
    code: Code = (*fill, kernel, *drain)
    got.run(trace(code))
    same(want, got)


@settings(max_examples=50, deadline=None)
@given(bodies)
def test_a_pipelined_loop_keeps_its_interval_in_the_pipelines(
    body: tuple[Instruction, ...],
) -> None:
    found = modulo((*body, *COUNT), SW26010_PIPELINE)
    times = found.stages + 20
    _, kernel, _ = found.blocks(times)
    assert cycles((kernel,), SW26010_PIPELINE) <= found.interval * kernel.times


def test_dependences_of_a_loop_name_latency_and_distance() -> None:
    body = (
        Instruction("vldd", "a", ("p",)),
        Instruction("vaddd", "s", ("s", "a")),
        Instruction("addl", "p", ("p",), 32),
    )
    assert set(dependences(body, SW26010_PIPELINE, loop=True)) == {
        Edge(0, 1, 4, 0),
        Edge(1, 0, 0, 1),
        Edge(0, 0, 4, 1),
        Edge(1, 1, 7, 1),
        Edge(0, 2, 0, 0),
        Edge(2, 0, 1, 1),
        Edge(2, 2, 1, 1),
    }


def test_a_block_of_a_branch_alone_stays_as_it_is() -> None:
    assert block(COUNT[1:], SW26010_PIPELINE) == COUNT[1:]
    assert block((), SW26010_PIPELINE) == ()


def test_a_store_and_a_load_of_one_place_keep_their_order() -> None:
    store, load = Instruction("vstd", "", ("v0", "p"), 8), Instruction("vldd", "v1", ("p",), 8)
    other = Instruction("vldd", "v2", ("p",), 40)
    edges = dependences((store, load, other), SW26010_PIPELINE, loop=False)
    assert edges == (Edge(0, 1, 1, 0),)


def test_a_wrong_order_is_found_by_the_interpreter() -> None:
    """What the other tests rest on: swap two dependent instructions, and values differ."""
    body = (Instruction("vldd", "v0", ("p",)), Instruction("vaddd", "v1", ("v0", "v0")))
    want, got = start(0), start(0)
    want.run(body)
    got.run(body[::-1])
    with pytest.raises(AssertionError, match="v1"):
        same(want, got)


def test_a_sum_of_vectors_is_bound_by_its_latency_until_it_is_unrolled() -> None:
    """One accumulator: 7 cycles a vector; 7 of them: bound by pipeline 1's loads and branch."""

    def interval(copies: int) -> Modulo:
        body = []
        for n in range(copies):
            body += [
                Instruction("vldd", f"x{n}", ("p",), 32 * n),
                Instruction("vaddd", f"s{n}", (f"s{n}", f"x{n}")),
            ]
        body.append(Instruction("addl", "p", ("p",), 32 * copies))
        return modulo((*body, *COUNT), SW26010_PIPELINE)

    assert interval(1).interval == 7
    assert interval(7).interval == 9


def test_loops_that_cannot_be_pipelined_are_refused() -> None:
    with pytest.raises(ScheduleError, match="ends with its counter and its branch"):
        modulo((Instruction("addl", "p", ("p",), 8), *COUNT[1:]), SW26010_PIPELINE)
    with pytest.raises(ScheduleError, match="no schedule of 4 instructions in 6 cycles"):
        body = (Instruction("vldd", "a", ("p",)), Instruction("vaddd", "s", ("s", "a")))
        modulo((*body, *COUNT), SW26010_PIPELINE, most=6)
    long = modulo(
        (Instruction("vldd", "a", ("p",)), Instruction("vstd", "", ("a", "q")), *COUNT),
        SW26010_PIPELINE,
    )
    with pytest.raises(
        ScheduleError, match=f"a loop of 0 iterations is too short for {long.stages} stages"
    ):
        long.blocks(0)


def test_registers_are_named_in_order_and_run_out_at_thirty() -> None:
    named = allocate((Instruction("vmad", "c", ("a", "$0", "c")),), SW26010_PIPELINE)
    assert named == (Instruction("vmad", "$1", ("$2", "$0", "$1")),)
    loads = tuple(Instruction("vldd", f"v{n}", ("$30",), 32 * n) for n in range(31))
    assert allocate(loads[:30], SW26010_PIPELINE)[29] == Instruction("vldd", "$29", ("$30",), 928)
    with pytest.raises(ScheduleError, match="the kernel needs 31 registers, 30 are free"):
        allocate(loads, SW26010_PIPELINE)
