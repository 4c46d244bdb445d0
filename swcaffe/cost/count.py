"""Program -> Counters, exact and in closed form: extents are multiplied, nothing is run.

The result equals, integer for integer, what the mesh executor counts as bytes and messages move.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from swcaffe.arrays import I64
from swcaffe.cost.alignment import blocks, transactions
from swcaffe.errors import ProgramError
from swcaffe.ir.buffer import strides
from swcaffe.ir.expand import expand
from swcaffe.ir.expr import Affine, Clamp, Extent
from swcaffe.ir.intrinsic import Intrinsic
from swcaffe.ir.layout import layout
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
    Wait,
)
from swcaffe.ir.visitor import Visitor
from swcaffe.machine.events import Counters
from swcaffe.machine.spec import Machine

__all__ = ["CopyCount", "count", "count_copy"]


def count(program: Program, machine: Machine) -> Counters:
    """Events of one run of a program on one core group; mesh-level programs are expanded."""
    program = program if program.level == "cpe" else expand(program)
    visitor = _Count(machine)
    visitor.visit(program.body)
    visitor.total.ldm_peak_bytes = layout(program).ldm_peak_bytes
    return visitor.total


@dataclass(frozen=True, slots=True)
class CopyCount:
    """All CPEs together over all iterations, and the CPE with most transactions."""

    elements: int
    transactions: int
    descriptors: int
    most_transactions: int
    most_descriptors: int


def count_copy(copy: Copy, machine: Machine, loops: tuple[tuple[str, int], ...]) -> CopyCount:
    """Count a CPE-level copy in loops of these extents. CPEs with equal shares count once."""
    line = machine.dma.transaction_bytes // 4
    times = math.prod(extent for _, extent in loops)
    memory, ldm = strides(copy.mem.buffer.shape), strides(copy.ldm.buffer.shape)
    offset = Affine()
    for start, stride in zip(copy.mem.start, memory, strict=True):
        offset = offset + start * stride
    factors = dict(offset.terms)
    steps = [(extent, factors.get(name, 0) % line) for name, extent in loops]
    first = _on_cpes(
        Affine(offset.const, tuple(t for t in offset.terms if t[0] in _PLACES)), machine
    )
    sizes = [_extents(size, machine) for size in copy.ldm.shape]
    shares = Counter(zip((first % line).tolist(), *(size.tolist() for size in sizes), strict=True))
    totals = [0, 0, 0, 0, 0]
    for (start, *shape), cpes in shares.items():
        if 0 in shape:
            continue
        axes = tuple(zip(shape, (memory[axis] for axis in copy.axes), ldm, strict=True))
        part = blocks(axes)
        inner = [(extent, stride % line) for extent, stride in part.axes]
        touched = transactions(line, part.length, start, tuple(sorted(steps + inner)))
        totals[0] += cpes * times * math.prod(shape)
        totals[1] += cpes * touched
        totals[2] += cpes * times * part.descriptors
        totals[3] = max(totals[3], touched)
        totals[4] = max(totals[4], times * part.descriptors)
    return CopyCount(*totals)


_PLACES = ("ROW", "COL")


@lru_cache(maxsize=4096)
def _mesh_index(rows: int, cols: int) -> tuple[I64, I64]:
    cpe = np.arange(rows * cols)
    return cpe // cols, cpe % cols


def _on_cpes(value: Affine, machine: Machine) -> I64:
    """Value on each CPE of an expression of ROW and COL."""
    row, col = _mesh_index(machine.mesh.rows, machine.mesh.cols)
    factors = dict(value.terms)
    result: I64 = value.const + factors.get("ROW", 0) * row + factors.get("COL", 0) * col
    return result


def _extents(size: Extent, machine: Machine) -> I64:
    if isinstance(size, Clamp):
        return np.clip(_on_cpes(size.value, machine), 0, size.high)
    return np.full(machine.mesh.cpes, size)


class _Count(Visitor[None]):
    """Adds up what each statement does, times the loops around it."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.total = Counters()
        self.loops: tuple[tuple[str, int], ...] = ()

    def seq(self, stmt: Seq) -> None:
        for part in stmt.body:
            self.visit(part)

    def for_(self, stmt: For) -> None:
        outer = self.loops
        self.loops = (*outer, (stmt.var, stmt.extent))
        self.visit(stmt.body)
        self.loops = outer

    def alloc(self, stmt: Alloc) -> None:
        """Costs nothing."""

    def wait(self, stmt: Wait) -> None:
        """Costs time, not events."""

    def copy(self, stmt: Copy) -> None:
        result = count_copy(stmt, self.machine, self.loops)
        if stmt.direction is Direction.GET:
            self.total.dma_get_bytes += 4 * result.elements
        else:
            self.total.dma_put_bytes += 4 * result.elements
        self.total.dma_transactions += result.transactions
        self.total.dma_descriptors += result.descriptors

    def apply(self, stmt: Apply) -> None:
        times = math.prod(extent for _, extent in self.loops)
        shapes = Intrinsic.sizes(stmt.args)
        work = stmt.intrinsic.work(shapes, self.machine)
        self.total.flops += times * work.flops
        self.total.row_messages += times * work.row_messages
        self.total.col_messages += times * work.col_messages
        self.total.kernel(stmt.intrinsic.name, tuple(n for s in shapes for n in s), times)

    def if_(self, stmt: If) -> None:
        raise ProgramError("messages of single CPEs are counted by running them")

    def send(self, stmt: Send) -> None:
        raise ProgramError("messages of single CPEs are counted by running them")

    def recv(self, stmt: Recv) -> None:
        raise ProgramError("messages of single CPEs are counted by running them")
