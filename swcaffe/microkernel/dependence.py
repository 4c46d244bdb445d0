"""Which instructions must stay in which order, and how many cycles apart.

A kernel's buffers do not overlap: memory operands conflict only if base register and offset agree
and one of them is a store. Messages of one bus keep their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from swcaffe.machine.pipeline import Pipeline
from swcaffe.microkernel.isa import ZERO, Instruction
from swcaffe.microkernel.pipeline import Issue

__all__ = ["BUSES", "Edge", "dependences"]

BUSES = {
    "getr": "row in",
    "getc": "col in",
    "putr": "row out",
    "putc": "col out",
    "vldr": "row out",
    "ldder": "row out",
    "vldc": "col out",
    "lddec": "col out",
}
"""Mnemonic -> bus and direction of what communicates."""


@dataclass(frozen=True, slots=True)
class Edge:
    """`after` of iteration i + distance is issued at least `latency` cycles after `before` of i.

    A latency of 0 allows the same cycle, `before` first in the list: a register is read when its
    reader is issued.
    """

    before: int
    after: int
    latency: int
    distance: int


@dataclass(frozen=True, slots=True)
class _Access:
    index: int
    turn: int
    writes: bool
    latency: int


def dependences(body: Sequence[Instruction], machine: Pipeline, loop: bool) -> tuple[Edge, ...]:
    """Edges of a basic block, and those to its next iteration if it is the body of a loop."""
    groups = Issue.of(machine).groups
    accesses: dict[str, list[_Access]] = defaultdict(list)
    for turn in range(2 if loop else 1):
        for index, instruction in enumerate(body):
            latency = groups[instruction.op].latency_cycles
            for resource, writes, cycles in _touches(instruction, latency):
                accesses[resource].append(_Access(index, turn, writes, cycles))
    edges: dict[tuple[int, int, int], int] = {}
    for chain in accesses.values():
        for edge in _chain(chain):
            key = edge.before, edge.after, edge.distance
            edges[key] = max(edge.latency, edges.get(key, 0))
    return tuple(Edge(a, b, latency, distance) for (a, b, distance), latency in edges.items())


def _touches(instruction: Instruction, latency: int) -> list[tuple[str, bool, int]]:
    """(resource, whether written, cycles until it may be touched again) of one instruction."""
    found = [(reg, False, 0) for reg in dict.fromkeys(instruction.srcs) if reg != ZERO]
    if instruction.dst and instruction.dst != ZERO:
        found.append((instruction.dst, True, latency))
    if instruction.opcode.form == "m":
        place = f"{instruction.imm}({instruction.srcs[-1]})"
        found.append((place, instruction.opcode.group == "store", 1))
    if instruction.op in BUSES:
        found.append((BUSES[instruction.op], True, 1))
    return found


def _chain(accesses: list[_Access]) -> list[Edge]:
    """RAW and WAW on the last write, WAR on the reads since then; nothing back into turn 0."""
    edges: list[Edge] = []
    last: _Access | None = None
    reads: list[_Access] = []
    for access in accesses:
        before = [last] if last is not None else []
        for earlier in (before + reads) if access.writes else before:
            if (earlier.turn, access.turn) != (1, 1) and earlier is not access:
                if earlier.index == access.index and earlier.turn == access.turn:
                    continue
                latency = earlier.latency if earlier.writes else 0
                edges.append(Edge(earlier.index, access.index, latency, access.turn - earlier.turn))
        if access.writes:
            last, reads = access, []
        else:
            reads.append(access)
    return edges
