"""Mesh fidelity: the CPE-level program on every CPE of a core group, in lockstep.

The iterations of a parallel loop are dealt to the core groups in contiguous runs, each group with
meshes of its own; all else is the first group's. Groups take turns: `verify` has shown that what
one writes in such a loop no other reads or writes.

One step acts on all CPEs at once, each with its own LDM contents. Arithmetic is the machine's:
float in memory and LDM, double in registers, one rounding as a kernel stores its result. Copies
complete at their Wait, so that whatever is used too early is not there yet. Events are counted
where bytes and messages move, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from swcaffe.arrays import F32, I64, Array
from swcaffe.errors import ProgramError, SwcaffeError
from swcaffe.execute.dma import Dma, Transfer
from swcaffe.execute.ldm import Box, Ldms
from swcaffe.execute.leaves import LEAVES, Call
from swcaffe.execute.register_bus import Message, RegisterBuses
from swcaffe.ir.buffer import Buffer, Region, Scope, strides
from swcaffe.ir.expand import expand
from swcaffe.ir.expr import Affine
from swcaffe.ir.intrinsic import Intrinsic
from swcaffe.ir.layout import layout
from swcaffe.ir.printer import statement_text
from swcaffe.ir.stmt import (
    Alloc,
    Apply,
    Copy,
    Direction,
    For,
    If,
    Program,
    Recv,
    Send,
    Seq,
    Stmt,
    Wait,
)
from swcaffe.ir.trace import CopyEvent, Event, Join, KernelEvent, WaitEvent
from swcaffe.ir.visitor import Visitor
from swcaffe.machine.events import Counters
from swcaffe.machine.spec import Machine

__all__ = ["MeshExecutor"]

DMA_ALIGNMENT = 4
"""Bytes: addresses and lengths of copies are multiples of it."""
AXES = 4
"""Axes of a box in the compiled leaves; shorter regions have leading axes of one element."""


class MeshExecutor:
    """Runs one program many times; takes mesh-level and CPE-level programs."""

    def __init__(
        self, program: Program, machine: Machine, core_groups: int = 0, *, reverse: bool = False
    ) -> None:
        """Expand the program if need be.

        core_groups  how many share parallel loops; 0 for all of the machine
        reverse      the last group takes its turn first: results may not depend on it
        """
        self.machine = machine
        self._groups, self._reverse = core_groups or machine.core_groups, reverse
        self.by_group: list[Counters] = []
        """What each core group did in the last run."""
        self.program = program if program.level == "cpe" else expand(program)
        self._layout = layout(self.program)

    def run(self, arrays: Sequence[Array], trace: list[Event] | None = None) -> Counters:
        """Run on C-contiguous arrays of four-byte words that fit; what happened, in numbers.

        trace  takes what happened, in order, group after group
        """
        memory = {
            buffer: array.reshape(-1).view(np.float32)  # words: copies do not look at them
            for buffer, array in zip(self.program.params, arrays, strict=True)
        }
        groups = [_Group.of(self.machine, number) for number in range(self._groups)]
        order = list(range(self._groups))[:: -1 if self._reverse else 1]
        run = _Run(self.program, self.machine, self._layout.ldm, memory, groups, order)
        run.trace = trace
        run.visit(self.program.body)
        total = Counters()
        for group in groups:
            if group.dma.pending():
                words = ", ".join(name for name, _ in group.dma.pending())
                raise ProgramError(f"{self.program.name}: ends before replies {words} are awaited")
            group.counters.ldm_peak_bytes = group.ldms.peak_bytes
            total.add(group.counters)
        self.by_group = [group.counters for group in groups]
        return total


@dataclass(frozen=True, slots=True)
class _Group:
    """One core group: its LDMs, its copies under way, and what it did."""

    number: int
    ldms: Ldms
    dma: Dma
    counters: Counters

    @classmethod
    def of(cls, machine: Machine, number: int) -> _Group:
        """An idle one."""
        ldms, counters = Ldms(machine), Counters()
        return cls(number, ldms, Dma(machine, ldms, counters), counters)


class _Run(Visitor[None]):
    """The state of one run."""

    def __init__(
        self,
        program: Program,
        machine: Machine,
        offsets: dict[Buffer, int],
        memory: dict[Buffer, F32],
        groups: list[_Group],
        order: list[int],
    ) -> None:
        self.name = program.name
        self.machine = machine
        self.offsets = offsets
        self.memory = memory
        self.groups, self.order = groups, order
        self.trace: list[Event] | None = None
        self.enter(groups[0])
        self.values: dict[str, int] = {}
        cpe = np.arange(machine.mesh.cpes)
        self.places = {"ROW": cpe // machine.mesh.cols, "COL": cpe % machine.mesh.cols}
        self._boxes: dict[int, tuple[Region, Affine, Box]] = {}
        self._starts: dict[int, tuple[Region, Affine, I64]] = {}

    def seq(self, stmt: Seq) -> None:
        """Statements in order; neighbours that send and receive run together."""
        for talks, parts in groupby(stmt.body, _communicates):
            if talks:
                self._communicate(tuple(parts))
                continue
            for part in parts:
                try:
                    self.visit(part)
                except SwcaffeError as error:
                    self._locate(error, part)
                    raise

    def _locate(self, error: SwcaffeError, stmt: Stmt) -> None:
        """Name the innermost statement and the loop values."""
        if not error.where:
            loops = ", ".join(f"{n} = {v}" for n, v in self.values.items()) or "no loop"
            error.where = f"{self.name}: {statement_text(stmt)} ({loops})"

    def enter(self, group: _Group) -> None:
        """What follows is done by this core group."""
        self.number = group.number
        self.ldms, self.dma, self.counters = group.ldms, group.dma, group.counters

    def note(self, event: Event) -> None:
        """Add to the trace, if there is one."""
        if self.trace is not None:
            self.trace.append(event)

    def _text(self, stmt: Stmt) -> str:
        """The statement as a trace names it; nothing without a trace."""
        return "" if self.trace is None else statement_text(stmt)

    def for_(self, stmt: For) -> None:
        count = len(self.groups) if stmt.parallel else 1
        bounds = [stmt.extent * group // count for group in range(count + 1)]
        if stmt.parallel:
            self.note(Join())
        for number in self.order if stmt.parallel else [0]:
            if stmt.parallel:
                self.enter(self.groups[number])
            for value in range(bounds[number], bounds[number + 1]):
                self.values[stmt.var] = value
                self.seq(stmt.body)
        if stmt.parallel:
            self.note(Join())
            self.enter(self.groups[0])
        self.values.pop(stmt.var, None)

    def if_(self, stmt: If) -> None:
        raise AssertionError("branches run through the buses")

    def alloc(self, stmt: Alloc) -> None:
        buffer = stmt.buffer
        if buffer.scope is Scope.MEM:
            if buffer not in self.memory:
                self.memory[buffer] = np.empty(buffer.count, np.float32)
            self.memory[buffer][:] = np.nan
        else:
            self.ldms.allocate(self.offsets[buffer], buffer.block_bytes((1, 1)))

    def copy(self, stmt: Copy) -> None:
        get = stmt.direction is Direction.GET
        starts, memory_strides = self.starts(stmt.mem, stmt.axes)
        memory, box = self.memory[stmt.mem.buffer], self.box(stmt.ldm)
        self._check_memory(stmt.mem.buffer, memory, starts, memory_strides, box)
        word = stmt.reply.name, stmt.reply.slot.evaluate(self.values)
        event = CopyEvent(self.number, self._text(stmt), word, get)
        self.note(event)
        transfer = Transfer(memory, starts, memory_strides, box, get, event)
        self.dma.issue(word, transfer)

    def _check_memory(self, buffer: Buffer, memory: F32, starts: I64, steps: I64, box: Box) -> None:
        """Each CPE's share lies in the buffer, at an address that the DMA engine takes."""
        last = starts + (box.extents - 1) @ steps
        outside = (box.extents.min(axis=1) > 0) & ((starts < 0) | (last >= memory.size))
        if outside.any():
            cpe = int(outside.argmax())
            raise ProgramError(
                f"CPE {divmod(cpe, self.machine.mesh.cols)} copies elements {starts[cpe]} to "
                f"{last[cpe]} of {buffer.name}, which has {memory.size}"
            )
        if memory.ctypes.data % DMA_ALIGNMENT:
            raise ProgramError(
                f"CPE (0, 0) copies {buffer.name} at {memory.ctypes.data % DMA_ALIGNMENT} B beyond "
                f"a multiple of {DMA_ALIGNMENT} B"
            )

    def wait(self, stmt: Wait) -> None:
        word = stmt.reply.name, stmt.reply.slot.evaluate(self.values)
        self.note(WaitEvent(self.number, self._text(stmt), word))
        count = self.dma.wait(word)
        if count != stmt.count:
            raise ProgramError(f"{count} copies were issued")

    def apply(self, stmt: Apply) -> None:
        intrinsic, boxes = stmt.intrinsic, [self.box(region) for region in stmt.args]
        for region in intrinsic.reads(stmt.args):
            self.ldms.require(self.box(region), "reads")
        for region in intrinsic.writes(stmt.args):
            self.ldms.write(self.box(region), "writes")
        call = Call(self.ldms, self.machine, self.counters, intrinsic, boxes, self.values)
        LEAVES[type(intrinsic)](call)
        shapes = Intrinsic.sizes(stmt.args)
        self.note(KernelEvent(self.number, self._text(stmt), intrinsic, shapes))
        sizes = tuple(n for shape in shapes for n in shape)
        self.counters.kernel(intrinsic.name, sizes)

    def send(self, stmt: Send) -> None:
        raise AssertionError("sends run through the buses")

    def recv(self, stmt: Recv) -> None:
        raise AssertionError("receives run through the buses")

    def box(self, region: Region) -> Box:
        """An LDM region for the leaves, at the current loop values."""
        found = self._boxes.get(id(region))
        if found is None:
            found = self._boxes[id(region)] = self._make_box(region)
        _, offset, box = found
        buffer = region.buffer
        slot = region.slot.evaluate(self.values) * buffer.slot_bytes((1, 1)) // buffer.item_bytes
        return Box(buffer, box.at + offset.evaluate(self.values) + slot, *_tail(box))

    def _make_box(self, region: Region) -> tuple[Region, Affine, Box]:
        buffer = region.buffer
        extents = np.ones((self.machine.mesh.cpes, AXES), np.int64)
        steps = np.zeros(AXES, np.int64)
        offset, first = Affine(), AXES - len(region.shape)
        for axis, (start, size, stride) in enumerate(
            zip(region.start, region.shape, strides(buffer.shape), strict=True), first
        ):
            offset = offset + start * stride
            steps[axis] = stride
            if isinstance(size, int):
                extents[:, axis] = size
            else:
                inner = self.of_cpe(size.value)
                extents[:, axis] = np.clip(inner, 0, size.high)
        base = self.offsets[buffer] // buffer.item_bytes
        return region, offset, Box(buffer, base, extents, steps, buffer.item_bytes // 4)

    def starts(self, region: Region, axes: tuple[int, ...]) -> tuple[I64, I64]:
        """First element in memory for each CPE, and the strides of the axes of the LDM region."""
        steps = strides(region.buffer.shape)
        found = self._starts.get(id(region))
        if found is None:
            offset = Affine()
            for start, stride in zip(region.start, steps, strict=True):
                offset = offset + start * stride
            loops = tuple(t for t in offset.terms if t[0] not in self.places)
            own = Affine(0, tuple(t for t in offset.terms if t[0] in self.places))
            found = region, Affine(offset.const, loops), self.of_cpe(own)
            self._starts[id(region)] = found
        memory_strides = np.zeros(AXES, np.int64)
        memory_strides[AXES - len(axes) :] = [steps[axis] for axis in axes]
        return found[1].evaluate(self.values) + found[2], memory_strides

    def of_cpe(self, value: Affine) -> I64:
        """Value on each CPE of an expression of ROW, COL and the current loops."""
        total = np.full(self.machine.mesh.cpes, value.const, np.int64)
        for name, factor in value.terms:
            total += factor * self.places.get(name, self.values.get(name, 0))
        return total

    def _communicate(self, parts: tuple[Stmt, ...]) -> None:
        """Let every CPE run its own messages."""
        cpes = range(self.machine.mesh.cpes)
        sequences = [self._messages(Seq(parts), cpe, dict(self.values)) for cpe in cpes]
        try:
            RegisterBuses(self.machine, self.counters).run(sequences)
        except SwcaffeError as error:
            self._locate(error, parts[0])
            raise

    def _messages(self, stmt: Stmt, cpe: int, values: dict[str, int]) -> Iterator[Message]:
        """The messages of one CPE, in its order."""
        if isinstance(stmt, Seq):
            for part in stmt.body:
                yield from self._messages(part, cpe, values)
        elif isinstance(stmt, For):
            for value in range(stmt.extent):
                yield from self._messages(stmt.body, cpe, {**values, stmt.var: value})
        elif isinstance(stmt, If):
            place = {name: int(index[cpe]) for name, index in self.places.items()}
            branch = stmt.otherwise if stmt.zero.evaluate({**values, **place}) else stmt.then
            yield from self._messages(branch, cpe, values)
        elif isinstance(stmt, Send | Recv):
            yield from self._registers(stmt, cpe)
        else:
            raise ProgramError("only sends and receives may differ between CPEs")

    def _registers(self, stmt: Send | Recv, cpe: int) -> Iterator[Message]:
        """One message for each vector register of a contiguous region."""
        region = stmt.source if isinstance(stmt, Send) else stmt.target
        box, lanes = self.box(region), self.machine.kernel.lanes
        own = Box(box.buffer, box.at, box.extents[cpe : cpe + 1], box.strides, box.words)
        words = self.ldms.doubles if box.words == 2 else self.ldms.floats
        if isinstance(stmt, Send):
            self.ldms.require(box, "sends")
        else:
            self.ldms.write_on(cpe, own)
        count = int(own.extents.prod())
        for first in range(0, count, lanes):
            values = words[cpe, box.at + first : box.at + min(first + lanes, count)]
            yield Message(stmt.bus, isinstance(stmt, Send), values, str(region))


def _tail(box: Box) -> tuple[I64, I64, int]:
    return box.extents, box.strides, box.words


def _communicates(stmt: Stmt) -> bool:
    """Whether a statement holds messages and nothing else."""
    if isinstance(stmt, For):
        return _communicates(stmt.body)
    if isinstance(stmt, Seq):
        return bool(stmt.body) and all(_communicates(part) for part in stmt.body)
    return isinstance(stmt, If | Send | Recv)
