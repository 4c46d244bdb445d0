"""Instructions of a CPE as data, and code: instructions and counted loops.

Registers are names: "$0" to "$31" once allocated, any word before that; "$31" reads as zero, "$sp"
("$30") points to the stack. There is one file for addresses and for vectors of four numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from swcaffe.errors import ProgramError

__all__ = ["OPCODES", "STACK", "ZERO", "Code", "Instruction", "Loop", "Opcode", "text", "trace"]

ZERO = "$31"
STACK = "$30"


@dataclass(frozen=True, slots=True)
class Opcode:
    """What all instructions with one mnemonic share.

    group   of the machine's table: pipelines and latency
    form    "r" registers only, "m" memory operand offset(base), "b" a branch
    result  whether the first operand is written
    """

    name: str
    group: str
    form: str = "r"
    result: bool = True


def _table() -> dict[str, Opcode]:
    groups: dict[tuple[str, str, bool], str] = {
        ("integer", "r", True): "addl subl s4addl s8addl cmpeq cmple cmplt",
        ("shift", "r", True): "sll srl",
        ("integer multiply", "r", True): "mull",
        ("float", "r", True): "vaddd vsubd vmuld vmad",
        ("compare", "r", True): "vfcmplt",
        ("select", "r", True): "vselne",
        ("permute", "r", True): "vshff",
        ("load", "m", True): "ldl vldd vlds ldde ldse vldr vldc ldder lddec",
        ("store", "m", False): "stl vstd vsts",
        ("put", "r", False): "putr putc",
        ("get", "r", True): "getr getc",
        ("branch", "b", False): "beq bne bgt",
    }
    return {
        name: Opcode(name, group, form, result)
        for (group, form, result), names in groups.items()
        for name in names.split()
    }


OPCODES = _table()
"""Mnemonic -> opcode. vlds, ldse and vsts convert between float in memory and double in registers;
a second letter or ending r or c loads and broadcasts along the row or column."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: mnemonic, register written ("" if none), registers read, constant.

    A memory operand is the last register read plus `imm` bytes; a constant operand of integer
    instructions is used when one register is missing. `taken` is how a branch of a trace goes.
    """

    op: str
    dst: str
    srcs: tuple[str, ...]
    imm: int = 0
    taken: bool = False

    def __post_init__(self) -> None:
        """Raise ProgramError for an unknown mnemonic, or a result where there is none."""
        if self.op not in OPCODES:
            raise ProgramError(f"unknown instruction {self.op!r}")
        if OPCODES[self.op].result != bool(self.dst):
            raise ProgramError(f"{self.op} {'needs' if not self.dst else 'has no'} result register")

    @property
    def opcode(self) -> Opcode:
        """The shared part."""
        return OPCODES[self.op]

    @property
    def is_branch(self) -> bool:
        """Whether it may transfer control."""
        return self.opcode.form == "b"

    def renamed(self, names: dict[str, str]) -> Instruction:
        """With registers replaced; those not in `names` stay."""
        srcs = tuple(names.get(reg, reg) for reg in self.srcs)
        return replace(self, dst=names.get(self.dst, self.dst), srcs=srcs)

    def __str__(self) -> str:
        """Assembly: result first, memory operands as offset(base)."""
        words = [self.dst] if self.dst else []
        if self.opcode.form == "m":
            words += [*self.srcs[:-1], f"{self.imm}({self.srcs[-1]})"]
        else:
            words += [*self.srcs]
            if self.opcode.group in ("integer", "shift") and len(self.srcs) == 1:
                words.append(str(self.imm))
        return f"{self.op:<7} {', '.join(words)}".rstrip()


@dataclass(frozen=True, slots=True)
class Loop:
    """A body that runs `times` times; if its last instruction is a branch, that goes back."""

    body: tuple[Instruction | Loop, ...]
    times: int


Code = tuple[Instruction | Loop, ...]


def trace(code: Code) -> Iterator[Instruction]:
    """Instructions in the order they run; branches that end a loop are taken but the last time."""
    for item in code:
        if isinstance(item, Instruction):
            yield item
            continue
        for turn in range(item.times):
            *body, last = trace(item.body)
            yield from body
            yield replace(last, taken=turn < item.times - 1) if last.is_branch else last


def text(code: Code, indent: str = "        ") -> str:
    """Assembly text, one instruction a line; loops are labelled."""
    lines: list[str] = []
    _print(code, indent, lines)
    return "\n".join(lines) + "\n"


def _print(code: Code, indent: str, lines: list[str]) -> None:
    for item in code:
        if isinstance(item, Loop):
            label = f"L{len(lines)}"
            lines.append(
                f"{label}:{' ' * max(1, len(indent) - len(label) - 1)}# {item.times} times"
            )
            _print(item.body, indent, lines)
            if isinstance(item.body[-1], Instruction) and item.body[-1].is_branch:
                lines[-1] += f", {label}"
        else:
            lines.append(indent + str(item))
