"""The meaning of instructions: registers, one LDM, four bus queues. Slow, plain, the oracle.

A schedule is right when this interpreter finds the same values with it as with the naive order.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from swcaffe.arrays import F64
from swcaffe.errors import LdmError, ProgramError
from swcaffe.microkernel.isa import ZERO, Instruction

__all__ = ["LANES", "Cpe", "Value"]

LANES = 4
Value = int | F64


@dataclass(slots=True)
class Cpe:
    """One CPE.

    ldm        float64, its byte address is 8 times its index; float data lie in it one a word
    registers  name -> an integer, or four doubles
    arriving   "row" and "col": messages that getr and getc will find
    sent       "row" and "col": messages put on the buses, in order
    """

    ldm: F64
    registers: dict[str, Value] = field(default_factory=dict)
    arriving: dict[str, deque[F64]] = field(
        default_factory=lambda: {"row": deque(), "col": deque()}
    )
    sent: dict[str, list[F64]] = field(default_factory=lambda: {"row": [], "col": []})

    def run(self, trace: Iterable[Instruction]) -> None:
        """Run a trace; ProgramError where a branch would not go as the trace says."""
        for index, instruction in enumerate(trace):
            try:
                _MEANING[instruction.op](self, instruction)
            except ProgramError as error:
                raise ProgramError(f"instruction {index}, {instruction}: {error}") from error

    def number(self, reg: str) -> int:
        """An integer register."""
        value = 0 if reg == ZERO else self._read(reg)
        if not isinstance(value, int):
            raise ProgramError(f"register {reg} holds a vector, not an integer")
        return value

    def vector(self, reg: str) -> F64:
        """A vector register."""
        value = np.zeros(LANES) if reg == ZERO else self._read(reg)
        if isinstance(value, int):
            raise ProgramError(f"register {reg} holds an integer, not a vector")
        return value

    def _read(self, reg: str) -> Value:
        if reg not in self.registers:
            raise ProgramError(f"register {reg} is read before it is written")
        return self.registers[reg]

    def address(self, instruction: Instruction, width: int) -> slice:
        """Index range of a memory operand of `width` words."""
        place = self.number(instruction.srcs[-1]) + instruction.imm
        first, odd = divmod(place, 8)
        if odd or first < 0 or first + width > len(self.ldm):
            raise LdmError(f"address {place} is not a word of an LDM of {8 * len(self.ldm)} bytes")
        return slice(first, first + width)

    def receive(self, bus: str) -> F64:
        """The head of a queue."""
        if not self.arriving[bus]:
            raise ProgramError(f"no message on the {bus} bus")
        return self.arriving[bus].popleft()


Meaning = Callable[[Cpe, Instruction], None]


def _integer(function: Callable[[int, int], int]) -> Meaning:
    def run(cpe: Cpe, i: Instruction) -> None:
        second = cpe.number(i.srcs[1]) if len(i.srcs) > 1 else i.imm
        cpe.registers[i.dst] = int(function(cpe.number(i.srcs[0]), second))

    return run


def _vector(function: Callable[..., F64]) -> Meaning:
    def run(cpe: Cpe, i: Instruction) -> None:
        cpe.registers[i.dst] = function(*map(cpe.vector, i.srcs))

    return run


def _load(width: int, bus: str = "", single: bool = False) -> Meaning:
    """`width` words, a single one into all lanes; then broadcast along `bus`."""

    def run(cpe: Cpe, i: Instruction) -> None:
        value = np.broadcast_to(cpe.ldm[cpe.address(i, width)], LANES).copy()
        if single:
            value = value.astype(np.float32).astype(np.float64)
        cpe.registers[i.dst] = value
        if bus:
            cpe.sent[bus].append(value)

    return run


def _store(single: bool) -> Meaning:
    def run(cpe: Cpe, i: Instruction) -> None:
        value = cpe.vector(i.srcs[0])
        cpe.ldm[cpe.address(i, LANES)] = value.astype(np.float32) if single else value

    return run


def _put(bus: str) -> Meaning:
    def run(cpe: Cpe, i: Instruction) -> None:
        cpe.sent[bus].append(cpe.vector(i.srcs[0]))

    return run


def _get(bus: str) -> Meaning:
    def run(cpe: Cpe, i: Instruction) -> None:
        cpe.registers[i.dst] = cpe.receive(bus)

    return run


def _load_integer(cpe: Cpe, i: Instruction) -> None:
    cpe.registers[i.dst] = int(cpe.ldm[cpe.address(i, 1)][0])


def _store_integer(cpe: Cpe, i: Instruction) -> None:
    cpe.ldm[cpe.address(i, 1)] = cpe.number(i.srcs[0])


def _branch(condition: Callable[[int, int], bool]) -> Meaning:
    def run(cpe: Cpe, i: Instruction) -> None:
        if condition(cpe.number(i.srcs[0]), 0) is not i.taken:
            raise ProgramError(f"goes the other way: {i.srcs[0]} = {cpe.number(i.srcs[0])}")

    return run


def _select(mask: F64, a: F64, b: F64) -> F64:
    result: F64 = np.where(mask != 0, a, b)
    return result


def _shuffle(cpe: Cpe, i: Instruction) -> None:
    """Two lanes of each source, chosen by two bits each of the constant."""
    low, high = map(cpe.vector, i.srcs)
    lanes = [(i.imm >> shift) & 3 for shift in (0, 2, 4, 6)]
    cpe.registers[i.dst] = np.concatenate([low[lanes[:2]], high[lanes[2:]]])


_MEANING: dict[str, Meaning] = {
    "addl": _integer(operator.add),
    "subl": _integer(operator.sub),
    "s4addl": _integer(lambda a, b: 4 * a + b),
    "s8addl": _integer(lambda a, b: 8 * a + b),
    "cmpeq": _integer(operator.eq),
    "cmple": _integer(operator.le),
    "cmplt": _integer(operator.lt),
    "sll": _integer(operator.lshift),
    "srl": _integer(operator.rshift),
    "mull": _integer(operator.mul),
    "vaddd": _vector(operator.add),
    "vsubd": _vector(operator.sub),
    "vmuld": _vector(operator.mul),
    "vmad": _vector(lambda a, b, c: a * b + c),
    "vfcmplt": _vector(lambda a, b: (a < b).astype(np.float64)),
    "vselne": _vector(_select),
    "vshff": _shuffle,
    "ldl": _load_integer,
    "vldd": _load(LANES),
    "vlds": _load(LANES, single=True),
    "ldde": _load(1),
    "ldse": _load(1, single=True),
    "vldr": _load(LANES, "row"),
    "vldc": _load(LANES, "col"),
    "ldder": _load(1, "row"),
    "lddec": _load(1, "col"),
    "stl": _store_integer,
    "vstd": _store(single=False),
    "vsts": _store(single=True),
    "putr": _put("row"),
    "putc": _put("col"),
    "getr": _get("row"),
    "getc": _get("col"),
    "beq": _branch(operator.eq),
    "bne": _branch(operator.ne),
    "bgt": _branch(operator.gt),
}
"""Mnemonic -> what it does to a CPE."""
