"""Cycle by cycle through the two in-order pipelines of a CPE [Fang 2019, 3.1.4; swDNN, section VI].

Each rule of issue is one function; `simulate` asks them for the two oldest instructions that are
left, in every cycle. Messages are taken to be there when a get is issued: what the buses add is
priced where several CPEs are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from swcaffe.errors import ProgramError
from swcaffe.machine.pipeline import Group, Pipeline
from swcaffe.microkernel.isa import OPCODES, ZERO, Code, Instruction, trace

__all__ = [
    "Core",
    "Cycle",
    "Issue",
    "cycles",
    "describe",
    "dual_stall",
    "pipeline_of",
    "stall",
    "timeline",
]

Ready = dict[str, int]
"""Register -> first cycle in which its pending result may be read or written again."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """One cycle: what each pipeline took, and why the next instruction in order had to wait."""

    number: int
    issued: tuple[Instruction | None, Instruction | None]
    waits: str


@dataclass(frozen=True, slots=True)
class Issue:
    """Groups by mnemonic: the machine's table, ready to be asked."""

    groups: dict[str, Group]

    @classmethod
    def of(cls, machine: Pipeline) -> Issue:
        """ProgramError if the machine lacks a group that an instruction needs."""
        known = {group.name: group for group in machine.groups}
        missing = sorted({op.group for op in OPCODES.values()} - set(known))
        if missing:
            raise ProgramError(f"the machine has no instruction group {', '.join(missing)}")
        return cls({name: known[op.group] for name, op in OPCODES.items()})


def stall(instruction: Instruction, ready: Ready, now: int) -> str:
    """Why it cannot be issued now, or "": a source, or its target, is still being computed."""
    for reg in instruction.srcs:
        if ready.get(reg, 0) > now:
            return f"RAW {reg}"
    if ready.get(instruction.dst, 0) > now:
        return f"WAW {instruction.dst}"
    return ""


def pipeline_of(older: Group, younger: Group | None) -> int:
    """Where the older of a pair goes: its only pipeline; else the one the younger does not need.

    If both fit both pipelines, the older takes pipeline 1.
    """
    if len(older.pipelines) == 1:
        return older.pipelines[0]
    if younger is not None and len(younger.pipelines) == 1:
        return 1 - younger.pipelines[0]
    return 1


def dual_stall(older: Instruction, younger: Instruction, taken: int, group: Group) -> str:
    """Why the younger cannot go together with the older, which took pipeline `taken`, or "".

    That nothing goes together with a branch before it is derived: swDNN's loop takes 17 cycles,
    not 16, because its branch stands alone between two products.
    """
    if older.is_branch:
        return "behind a branch"
    if older.dst not in ("", ZERO):
        if older.dst in younger.srcs:
            return f"RAW {older.dst} in the pair"
        if older.dst == younger.dst:
            return f"WAW {older.dst} in the pair"
    if group.pipelines == (taken,):
        return f"P{taken} is taken"
    return ""


class Core:
    """One CPE's time, and the results that are pending."""

    def __init__(self, machine: Pipeline) -> None:
        """At cycle 0, nothing pending."""
        self.groups = Issue.of(machine).groups
        self.now = 0
        self.ready: Ready = {}

    def state(self) -> tuple[tuple[str, int], ...]:
        """What the future depends on: pending results, by cycles left."""
        left = ((reg, at - self.now) for reg, at in self.ready.items() if at > self.now)
        return tuple(sorted(left))

    def waits(self, instruction: Instruction) -> str:
        """Why an instruction cannot be issued now, or ""."""
        return stall(instruction, self.ready, self.now)

    def issue(self, instruction: Instruction) -> None:
        """Start it: its result is pending."""
        if instruction.dst and instruction.dst != ZERO:
            latency = self.groups[instruction.op].latency_cycles
            self.ready[instruction.dst] = self.now + latency

    def step(self, older: Instruction, younger: Instruction | None) -> Cycle:
        """One cycle on the two oldest instructions; any of its pipelines may stay empty."""
        groups = self.groups
        issued: list[Instruction | None] = [None, None]
        waits = self.waits(older)
        if not waits:
            second = groups[younger.op] if younger is not None else None
            taken = pipeline_of(groups[older.op], second)
            issued[taken] = older
            if younger is not None and second is not None:
                waits = dual_stall(older, younger, taken, second) or self.waits(younger)
                if not waits:
                    issued[1 - taken] = younger
                    self.issue(younger)
            self.issue(older)
        self.now += 1
        return Cycle(self.now - 1, (issued[0], issued[1]), waits)

    def run(self, instructions: Iterable[Instruction]) -> Iterator[Cycle]:
        """All cycles of a trace that ends with the issue of its last instruction."""
        left = iter(instructions)
        window = list(islice(left, 2))
        while window:
            cycle = self.step(window[0], window[1] if len(window) > 1 else None)
            count = 2 - cycle.issued.count(None)
            window = window[count:] + list(islice(left, count))
            yield cycle

    def drain(self, instructions: Iterable[Instruction]) -> None:
        """Run a trace and forget its cycles."""
        for _ in self.run(instructions):
            pass

    def follow(self, code: Code, waiting: list[Instruction]) -> list[Instruction]:
        """Run `code` after the instructions that wait; what is returned waits for what comes next.

        A branch ends its cycle's pair, so that an iteration depends on the pending results at its
        start alone: once those come back, the iterations in between repeat.
        """
        for item in code:
            if isinstance(item, Instruction):
                waiting.append(item)
                continue
            back = _taken(item.body)
            if back is None or item.times < 3:
                for turn in range(item.times):
                    last = turn == item.times - 1
                    waiting = self.follow(item.body if back is None or last else back, waiting)
                continue
            self.drain(self.follow(back, waiting))
            self._repeat(back, item.times - 2)
            waiting = self.follow(item.body, [])
        return waiting

    def _repeat(self, body: Code, times: int) -> None:
        """Iterations that begin and end with a pair of their own."""
        seen: dict[tuple[tuple[str, int], ...], tuple[int, int]] = {}
        turn = 0
        while turn < times:
            state = self.state()
            if state in seen:
                before, then = seen.pop(state)
                whole = (times - turn) // (turn - before)
                turn += whole * (turn - before)
                self._skip(whole * (self.now - then))
                seen.clear()
                if turn == times:
                    return
            else:
                seen[state] = turn, self.now
            self.drain(self.follow(body, []))
            turn += 1

    def _skip(self, span: int) -> None:
        self.ready = {reg: at + span for reg, at in self.ready.items() if at > self.now}
        self.now += span


def _taken(body: Code) -> Code | None:
    """The body with its closing branch taken; None if it does not end with a branch."""
    last = body[-1]
    if isinstance(last, Instruction) and last.is_branch:
        return (*body[:-1], replace(last, taken=True))
    return None


def timeline(code: Code, machine: Pipeline) -> list[Cycle]:
    """Every cycle of `code`, loops unrolled, until its last instruction is issued."""
    return list(Core(machine).run(trace(code)))


def cycles(code: Code, machine: Pipeline) -> int:
    """As many cycles as `timeline` has, without following loops that have settled."""
    state = Core(machine)
    state.drain(state.follow(code, []))
    return state.now


def describe(cycles_: Iterable[Cycle]) -> str:
    """A table: cycle, P0, P1, why the next instruction waits."""
    lines = [f"{'cycle':>5}  {'P0':<26}{'P1':<26}waits"]
    for cycle in cycles_:
        p0, p1 = (str(i) if i else "." for i in cycle.issued)
        lines.append(f"{cycle.number:>5}  {p0:<26}{p1:<26}{cycle.waits}".rstrip())
    return "\n".join(lines) + "\n"
