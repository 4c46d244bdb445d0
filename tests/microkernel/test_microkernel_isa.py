"""Instructions as data, their text, and their meaning."""

from __future__ import annotations

import numpy as np
import pytest

from swcaffe.errors import LdmError, ProgramError
from swcaffe.microkernel.interpret import Cpe
from swcaffe.microkernel.isa import OPCODES, Instruction, Loop, text, trace


def cpe(**registers: object) -> Cpe:
    return Cpe(np.arange(16.0), dict(registers))  # type: ignore[arg-type]


def after(instruction: Instruction, **registers: object) -> Cpe:
    result = cpe(**registers)
    result.run([instruction])
    return result


def test_code_is_printed_as_assembly_with_labels() -> None:
    loop = Loop((Instruction("vldd", "$1", ("$2",), 32), Instruction("bgt", "", ("$3",))), 5)
    code = (Instruction("addl", "$3", ("$31",), 5), loop, Instruction("vstd", "", ("$1", "$2")))
    assert [line.split() for line in text(code).splitlines()] == [
        ["addl", "$3,", "$31,", "5"],
        ["L1:", "#", "5", "times"],
        ["vldd", "$1,", "32($2)"],
        ["bgt", "$3,", "L1"],
        ["vstd", "$1,", "0($2)"],
    ]


def test_a_trace_takes_a_loops_branch_but_the_last_time() -> None:
    body = (Instruction("subl", "k", ("k",), 1), Instruction("bgt", "", ("k",)))
    assert [i.taken for i in trace((Loop(body, 3),)) if i.is_branch] == [True, True, False]


def test_unknown_instructions_and_wrong_results_are_refused() -> None:
    with pytest.raises(ProgramError, match="unknown instruction 'vmul'"):
        Instruction("vmul", "a", ("b",))
    with pytest.raises(ProgramError, match="vstd has no result register"):
        Instruction("vstd", "a", ("b",))
    with pytest.raises(ProgramError, match="vldd needs result register"):
        Instruction("vldd", "", ("b",))


@pytest.mark.parametrize(
    ("op", "srcs", "imm", "value"),
    [
        ("addl", ("x", "y"), 0, 10),
        ("addl", ("x",), 5, 12),
        ("subl", ("x", "y"), 0, 4),
        ("s4addl", ("x", "y"), 0, 31),
        ("s8addl", ("x", "y"), 0, 59),
        ("cmpeq", ("x", "y"), 0, 0),
        ("cmple", ("y", "x"), 0, 1),
        ("cmplt", ("x", "x"), 0, 0),
        ("sll", ("x",), 2, 28),
        ("srl", ("x",), 1, 3),
        ("mull", ("x", "y"), 0, 21),
    ],
)
def test_integer_instructions(op: str, srcs: tuple[str, ...], imm: int, value: int) -> None:
    assert after(Instruction(op, "r", srcs, imm), x=7, y=3).registers["r"] == value


@pytest.mark.parametrize(
    ("op", "srcs", "imm", "value"),
    [
        ("vaddd", ("v", "w"), 0, [5, 5, 5, 5]),
        ("vsubd", ("v", "w"), 0, [-3, -1, 1, 3]),
        ("vmuld", ("v", "w"), 0, [4, 6, 6, 4]),
        ("vmad", ("v", "w", "w"), 0, [8, 9, 8, 5]),
        ("vfcmplt", ("v", "w"), 0, [1, 1, 0, 0]),
        ("vshff", ("v", "w"), 0b01_00_11_10, [3, 4, 4, 3]),
        ("vldd", ("p",), 8, [2, 3, 4, 5]),
        ("ldde", ("p",), 8, [2, 2, 2, 2]),
    ],
)
def test_vector_instructions(op: str, srcs: tuple[str, ...], imm: int, value: list[float]) -> None:
    v, w = np.arange(1.0, 5), np.arange(4.0, 0, -1)
    found = after(Instruction(op, "r", srcs, imm), v=v, w=w, p=8).registers["r"]
    np.testing.assert_array_equal(found, value)


def test_select_takes_the_first_where_the_mask_is_not_zero() -> None:
    mask, a, b = np.array([0.0, 1, 0, 2]), np.full(4, 5.0), np.full(4, 6.0)
    run = after(Instruction("vselne", "r", ("m", "a", "b")), m=mask, a=a, b=b)
    np.testing.assert_array_equal(run.registers["r"], [6, 5, 6, 5])


@pytest.mark.parametrize(
    ("op", "bus", "value"),
    [
        ("vldr", "row", [1, 2, 3, 4]),
        ("vldc", "col", [1, 2, 3, 4]),
        ("ldder", "row", [1, 1, 1, 1]),
        ("lddec", "col", [1, 1, 1, 1]),
    ],
)
def test_load_and_broadcast_keeps_what_it_sends(op: str, bus: str, value: list[float]) -> None:
    run = after(Instruction(op, "r", ("p",)), p=8)
    np.testing.assert_array_equal(run.registers["r"], value)
    np.testing.assert_array_equal(run.sent[bus], [value])


def test_a_message_goes_from_put_to_get() -> None:
    sender = after(Instruction("putc", "", ("v",)), v=np.arange(4.0))
    receiver = cpe()
    receiver.arriving["col"].extend(sender.sent["col"])
    receiver.run([Instruction("getc", "r", ())])
    np.testing.assert_array_equal(receiver.registers["r"], np.arange(4.0))
    with pytest.raises(ProgramError, match=r"getc +r: no message on the col bus"):
        receiver.run([Instruction("getc", "r", ())])


def test_single_precision_memory_rounds() -> None:
    third = np.full(4, 1 / 3)
    run = after(Instruction("vsts", "", ("v", "p")), v=third, p=0)
    np.testing.assert_array_equal(run.ldm[:4], third.astype(np.float32))
    run.ldm[:4] = third
    run.run([Instruction("vlds", "r", ("p",)), Instruction("ldse", "s", ("p",))])
    np.testing.assert_array_equal(run.registers["r"], third.astype(np.float32))
    np.testing.assert_array_equal(run.registers["s"], third.astype(np.float32))


def test_integers_pass_through_memory() -> None:
    run = after(Instruction("stl", "", ("x", "p"), 16), x=41, p=0)
    run.run([Instruction("ldl", "y", ("p",), 16)])
    assert run.registers["y"] == 41


@pytest.mark.parametrize(
    ("op", "value", "taken"), [("beq", 0, True), ("bne", 0, False), ("bgt", 2, True)]
)
def test_a_branch_must_go_as_the_trace_says(op: str, value: int, taken: bool) -> None:
    after(Instruction(op, "", ("k",), taken=taken), k=value)
    with pytest.raises(
        ProgramError, match=f"instruction 0, {op} +k: goes the other way: k = {value}"
    ):
        after(Instruction(op, "", ("k",), taken=not taken), k=value)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Instruction("addl", "r", ("z",), 1), "z is read before it is written"),
        (Instruction("vaddd", "r", ("x", "x")), "x holds an integer, not a vector"),
        (Instruction("addl", "r", ("v",), 1), "v holds a vector, not an integer"),
    ],
)
def test_wrong_register_use_is_found(instruction: Instruction, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        after(instruction, x=1, v=np.zeros(4))


@pytest.mark.parametrize("address", [-8, 4, 104])
def test_addresses_are_words_inside_the_ldm(address: int) -> None:
    with pytest.raises(
        ProgramError, match=f"address {address} is not a word of an LDM of 128 bytes"
    ):
        after(Instruction("vldd", "r", ("p",)), p=address)
    with pytest.raises(LdmError):
        cpe(p=address).address(Instruction("vldd", "r", ("p",)), 4)


def test_every_instruction_has_a_meaning() -> None:
    from swcaffe.microkernel import interpret

    assert set(interpret._MEANING) == set(OPCODES)
