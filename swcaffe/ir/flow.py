"""Data flow: what has been written, what is under way, for every LDM buffer and reply word.

The program is followed statement by statement on abstract contents: boxes that are written, and
copies that have not been awaited. A loop is left early when its state repeats: nothing but slots
depends on a loop variable, so from then on it repeats for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from swcaffe.errors import LdmError, ProgramError
from swcaffe.ir.buffer import Buffer, Region
from swcaffe.ir.expr import Mod, Slot
from swcaffe.ir.printer import statement_text
from swcaffe.ir.stmt import Alloc, Apply, Copy, Direction, For, If, Program, Recv, Send, Seq, Wait
from swcaffe.ir.visitor import Visitor

__all__ = ["check_flow"]

Box: TypeAlias = tuple[tuple[int, int], ...]
Place: TypeAlias = tuple[Buffer, int]
"""A slot of an LDM buffer."""
Word: TypeAlias = tuple[str, int]
"""A reply word."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A copy that has not been awaited."""

    word: Word
    direction: Direction
    place: Place
    box: Box
    memory: Buffer


@dataclass(frozen=True, slots=True)
class _State:
    """Boxes written in each LDM slot, and copies under way."""

    written: frozenset[tuple[Place, Box]] = frozenset()
    pending: tuple[_Pending, ...] = ()


def check_flow(program: Program) -> None:
    """Raise LdmError or ProgramError where data is used too early, lost, or never awaited."""
    flow = _Flow(program.name)
    flow.visit(program.body)
    if flow.state.pending:
        words = sorted({f"{p.word[0]}" for p in flow.state.pending})
        raise ProgramError(f"{program.name}: ends before replies {', '.join(words)} are awaited")


def _overlap(a: Box, b: Box) -> bool:
    return all(s < t + m and t < s + n for (s, n), (t, m) in zip(a, b, strict=True))


def _subtract(box: Box, other: Box) -> Iterator[Box]:
    """Boxes that make up `box` without `other`."""
    if not _overlap(box, other):
        yield box
        return
    left = list(box)
    for axis, ((start, size), (cut, length)) in enumerate(zip(box, other, strict=True)):
        end, cut_end = start + size, cut + length
        for low, high in ((start, cut), (cut_end, end)):
            if low < high:
                yield (*left[:axis], (low, high - low), *box[axis + 1 :])
        left[axis] = (max(start, cut), min(end, cut_end) - max(start, cut))


class _Flow(Visitor[None]):
    """The abstract run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = _State()
        self.values: dict[str, int] = {}

    def fail(self, stmt: object, problem: str, kind: type[ProgramError] = LdmError) -> ProgramError:
        loops = ", ".join(f"{n} = {v}" for n, v in self.values.items()) or "no loop"
        return kind(f"{self.name}: {statement_text(stmt)} ({loops}): {problem}")  # type: ignore[arg-type]  # a Stmt

    def place(self, region: Region) -> tuple[Place, Box]:
        starts = (start.evaluate(self.values) for start in region.start)
        box = tuple(zip(starts, region.sizes, strict=True))
        return (region.buffer, region.slot.evaluate(self.values)), box

    def read(self, stmt: object, region: Region) -> None:
        """Everything in the region must be written and arrived."""
        place, box = self.place(region)
        for pending in self.state.pending:
            arriving = pending.direction is Direction.GET and pending.place == place
            if arriving and _overlap(pending.box, box):
                raise self.fail(stmt, f"reads {region} before reply {pending.word[0]} is awaited")
        missing = [box]
        for where, done in self.state.written:
            if where == place:
                missing = [rest for part in missing for rest in _subtract(part, done)]
        if missing:
            text = ", ".join(f"{start}:+{size}" for start, size in missing[0])
            raise self.fail(stmt, f"reads {region}, of which [{text}] was never written")

    def write(self, stmt: object, region: Region) -> None:
        """Nothing in the region may be under way."""
        place, box = self.place(region)
        for pending in self.state.pending:
            if pending.place == place and _overlap(pending.box, box):
                verb = "fills" if pending.direction is Direction.GET else "reads"
                raise self.fail(
                    stmt, f"writes {region} while reply {pending.word[0]} still {verb} it"
                )
        self.mark(place, box)

    def mark(self, place: Place, box: Box) -> None:
        """Remember a box as written, and forget those inside it."""
        kept = {
            (where, done)
            for where, done in self.state.written
            if where != place or any(_subtract(done, box))
        }
        self.state = replace(self.state, written=frozenset(kept | {(place, box)}))

    def seq(self, stmt: Seq) -> None:
        allocated = [part.buffer for part in stmt.body if isinstance(part, Alloc)]
        for part in stmt.body:
            self.visit(part)
        for pending in self.state.pending:
            if pending.place[0] in allocated or pending.memory in allocated:
                raise self.fail(
                    stmt.body[-1],
                    f"scope of {pending.place[0].name} ends before reply {pending.word[0]}",
                )
        left = frozenset(entry for entry in self.state.written if entry[0][0] not in allocated)
        self.state = replace(self.state, written=left)

    def for_(self, stmt: For) -> None:
        period = _period(stmt)
        seen: dict[tuple[_State, int], int] = {}
        index = 0
        while index < stmt.extent:
            key = (self.state, index % period)
            if key in seen:
                turn = index - seen[key]
                index += (stmt.extent - index) // turn * turn
                seen.clear()
                if index == stmt.extent:
                    break
            else:
                seen[key] = index
            self.values[stmt.var] = index
            self.visit(stmt.body)
            index += 1
        self.values.pop(stmt.var, None)

    def alloc(self, stmt: Alloc) -> None:
        """Contents are undefined, and nothing of an earlier scope is left."""

    def copy(self, stmt: Copy) -> None:
        place, box = self.place(stmt.ldm)
        word = (stmt.reply.name, stmt.reply.slot.evaluate(self.values))
        if stmt.direction is Direction.PUT:
            self.read(stmt, stmt.ldm)
        else:
            self.write(stmt, stmt.ldm)
            for pending in self.state.pending:
                if pending.direction is Direction.PUT and pending.memory == stmt.mem.buffer:
                    name = stmt.mem.buffer.name
                    raise self.fail(stmt, f"reads {name} before put reply {pending.word[0]}")
        entry = _Pending(word, stmt.direction, place, box, stmt.mem.buffer)
        self.state = replace(self.state, pending=(*self.state.pending, entry))

    def wait(self, stmt: Wait) -> None:
        word = (stmt.reply.name, stmt.reply.slot.evaluate(self.values))
        count = sum(pending.word == word for pending in self.state.pending)
        if count != stmt.count:
            raise self.fail(stmt, f"{count} copies were issued", ProgramError)
        left = tuple(pending for pending in self.state.pending if pending.word != word)
        self.state = replace(self.state, pending=left)

    def apply(self, stmt: Apply) -> None:
        for region in stmt.intrinsic.reads(stmt.args):
            self.read(stmt, region)
        for region in stmt.intrinsic.writes(stmt.args):
            self.write(stmt, region)

    def if_(self, stmt: If) -> None:
        raise self.fail(stmt, "belongs to CPE level", ProgramError)

    def send(self, stmt: Send) -> None:
        raise self.fail(stmt, "belongs to CPE level", ProgramError)

    def recv(self, stmt: Recv) -> None:
        raise self.fail(stmt, "belongs to CPE level", ProgramError)


class _Slots(Visitor[Iterator[Slot]]):
    """Every slot expression, and starts of LDM regions, inside a statement."""

    def seq(self, stmt: Seq) -> Iterator[Slot]:
        for part in stmt.body:
            yield from self.visit(part)

    def for_(self, stmt: For) -> Iterator[Slot]:
        return self.seq(stmt.body)

    def alloc(self, stmt: Alloc) -> Iterator[Slot]:
        return iter(())

    def copy(self, stmt: Copy) -> Iterator[Slot]:
        yield from (stmt.reply.slot, stmt.ldm.slot, *stmt.ldm.start)

    def wait(self, stmt: Wait) -> Iterator[Slot]:
        yield stmt.reply.slot

    def apply(self, stmt: Apply) -> Iterator[Slot]:
        for region in stmt.args:
            yield from (region.slot, *region.start)


def _period(stmt: For) -> int:
    """After how many iterations the slots repeat; the whole loop if an LDM address moves."""
    period = 1
    for slot in _Slots().visit(stmt.body):
        value, modulus = (
            (slot.value, slot.modulus) if isinstance(slot, Mod) else (slot, stmt.extent)
        )
        if any(name == stmt.var for name, _ in value.terms):
            period = math.lcm(period, modulus)
    return period
