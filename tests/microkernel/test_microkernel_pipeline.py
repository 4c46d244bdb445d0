"""Issue rules, one by one, and cycles of loops against the plain simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swcaffe.errors import ProgramError
from swcaffe.machine.pipeline import SW26010_PIPELINE, Pipeline
from swcaffe.microkernel.isa import OPCODES, Instruction, Loop
from swcaffe.microkernel.pipeline import (
    Issue,
    cycles,
    describe,
    dual_stall,
    pipeline_of,
    stall,
    timeline,
)

GROUPS = Issue.of(SW26010_PIPELINE).groups
ADD = Instruction("addl", "x", ("y",), 1)
LOAD = Instruction("vldd", "v", ("p",))
MAD = Instruction("vmad", "c", ("a", "b", "c"))


def where(*code: Instruction, machine: Pipeline = SW26010_PIPELINE) -> list[tuple[int, int]]:
    """(cycle, pipeline) of each instruction."""
    found = {
        id(i): (cycle.number, p)
        for cycle in timeline(code, machine)
        for p, i in enumerate(cycle.issued)
        if i is not None
    }
    return [found[id(i)] for i in code]


@pytest.mark.parametrize(
    ("name", "pipelines", "latency"),
    [
        ("addl", (0, 1), 1),
        ("mull", (0,), 5),
        ("vmad", (0,), 7),
        ("vshff", (0,), 1),
        ("vldr", (1,), 4),
        ("getc", (1,), 1),
        ("bgt", (1,), 1),
    ],
)
def test_groups_have_the_published_pipelines_and_latencies(
    name: str, pipelines: tuple[int, ...], latency: int
) -> None:
    assert (GROUPS[name].pipelines, GROUPS[name].latency_cycles) == (pipelines, latency)


def test_every_mnemonic_has_a_group_and_a_machine_without_one_is_refused() -> None:
    assert set(GROUPS) == set(OPCODES)
    poor = replace(SW26010_PIPELINE, groups=SW26010_PIPELINE.groups[:-1])
    with pytest.raises(ProgramError, match="no instruction group branch"):
        Issue.of(poor)


def test_two_instructions_of_different_pipelines_go_in_one_cycle() -> None:
    assert where(MAD, LOAD) == [(0, 0), (0, 1)]
    assert where(LOAD, MAD) == [(0, 1), (0, 0)]


def test_two_instructions_of_one_pipeline_follow_each_other() -> None:
    assert where(MAD, Instruction("vmad", "d", ("a", "b", "d"))) == [(0, 0), (1, 0)]
    assert where(LOAD, Instruction("vldd", "w", ("p",), 32)) == [(0, 1), (1, 1)]


def test_the_younger_waits_while_the_older_cannot_be_issued() -> None:
    use = Instruction("vaddd", "w", ("v", "v"))
    free = Instruction("addl", "q", ("y",), 8)
    assert where(LOAD, use, free) == [(0, 1), (4, 0), (4, 1)]


def test_a_lone_instruction_that_fits_both_pipelines_takes_pipeline_1() -> None:
    assert pipeline_of(GROUPS["addl"], None) == 1
    assert where(ADD) == [(0, 1)]


def test_the_younger_of_two_that_fit_both_takes_pipeline_0() -> None:
    assert where(ADD, Instruction("addl", "z", ("y",), 2)) == [(0, 1), (0, 0)]


@pytest.mark.parametrize(("younger", "taken"), [(MAD, 1), (LOAD, 0)])
def test_the_older_of_a_pair_leaves_the_pipeline_that_the_younger_needs(
    younger: Instruction, taken: int
) -> None:
    assert where(ADD, younger) == [(0, taken), (0, 1 - taken)]


def test_a_pair_may_not_read_or_write_what_its_older_writes() -> None:
    read = Instruction("vldd", "w", ("x",))
    write = Instruction("ldl", "x", ("p",))
    assert dual_stall(ADD, read, 0, GROUPS["vldd"]) == "RAW x in the pair"
    assert dual_stall(ADD, write, 0, GROUPS["ldl"]) == "WAW x in the pair"
    assert where(ADD, read) == [(0, 0), (1, 1)]


def test_a_pair_may_write_what_its_older_reads() -> None:
    assert where(MAD, Instruction("vldd", "a", ("p",))) == [(0, 0), (0, 1)]


@pytest.mark.parametrize("latency", [3, 4])
def test_a_loaded_value_is_there_after_the_load_latency(latency: int) -> None:
    machine = SW26010_PIPELINE.with_load_latency(latency)
    use = Instruction("vaddd", "w", ("v", "v"))
    assert where(LOAD, use, machine=machine)[1] == (latency, 0)


def test_a_pending_result_may_not_be_read_or_written_again() -> None:
    ready = {"c": 7}
    assert stall(MAD, ready, 6) == "RAW c"
    assert stall(Instruction("vldd", "c", ("p",)), ready, 6) == "WAW c"
    assert stall(MAD, ready, 7) == ""
    assert where(MAD, Instruction("vldd", "c", ("p",)))[1] == (7, 1)


def test_nothing_goes_behind_a_branch_in_its_cycle() -> None:
    branch = Instruction("bgt", "", ("k",))
    first, second, *_ = timeline((Loop((ADD, LOAD, branch), 2),), SW26010_PIPELINE)
    assert first.issued == (ADD, LOAD)
    assert second.issued[0] is None
    assert second.waits == "behind a branch"


def test_a_branch_goes_behind_another_instruction_in_its_cycle() -> None:
    branch = Instruction("bgt", "", ("k",))
    assert where(MAD, branch) == [(0, 0), (0, 1)]
    assert where(branch, MAD) == [(0, 1), (1, 0)]


def test_the_zero_register_is_never_pending() -> None:
    assert where(Instruction("vldd", "$31", ("p",)), Instruction("vaddd", "w", ("$31", "$31"))) == [
        (0, 1),
        (0, 0),
    ]


def test_the_table_of_cycles_says_who_waits_for_what() -> None:
    text = describe(timeline((LOAD, Instruction("vaddd", "w", ("v", "v"))), SW26010_PIPELINE))
    lines = text.splitlines()
    assert lines[0].split() == ["cycle", "P0", "P1", "waits"]
    assert lines[1].split() == ["0", ".", "vldd", "v,", "0(p)", "RAW", "v", "in", "the", "pair"]
    assert lines[5].split() == ["4", "vaddd", "w,", "v,", "v", "."]


registers = st.sampled_from(["a", "b", "c", "d"])
instructions = st.one_of(
    st.builds(lambda d, s: Instruction("addl", d, (s,), 1), registers, registers),
    st.builds(lambda d, s: Instruction("vldd", d, (s,)), registers, registers),
    st.builds(lambda d, s, t: Instruction("vmad", d, (s, t, d)), registers, registers, registers),
    st.builds(lambda d, s: Instruction("mull", d, (s, s)), registers, registers),
)
blocks = st.lists(instructions, min_size=1, max_size=5).map(tuple)
BRANCH = Instruction("bgt", "", ("k",))


@settings(max_examples=150, deadline=None)
@given(blocks, blocks, blocks, st.integers(1, 30), st.integers(1, 7), st.booleans())
def test_loops_that_are_not_followed_take_as_many_cycles_as_when_they_are(
    before: tuple[Instruction, ...],
    inner: tuple[Instruction, ...],
    after: tuple[Instruction, ...],
    times: int,
    outer: int,
    returns: bool,
) -> None:
    nest = Loop(
        (*before, Loop((*inner, BRANCH), times), *(after if returns else ()), BRANCH), outer
    )
    code = (*before, nest, Loop(inner, 3), *after)
    assert cycles(code, SW26010_PIPELINE) == len(timeline(code, SW26010_PIPELINE))
