"""The rules every program must keep before anything runs, counts or prints it, as a table.

RULES look at one statement at a time, with the range of every loop variable: bounds are exact
because addresses are affine. `flow` then follows data through LDM buffers and reply words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from swcaffe.errors import LdmError, ProgramError
from swcaffe.ir.buffer import Along, Region, Scope
from swcaffe.ir.expr import ZERO, Affine, Mod
from swcaffe.ir.flow import check_flow
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
)
from swcaffe.machine.spec import Machine

__all__ = [
    "RULES",
    "Context",
    "bounds",
    "copies",
    "dealt_from_start",
    "intrinsics",
    "level",
    "loops",
    "partition",
    "races",
    "verify",
]


@dataclass(frozen=True, slots=True)
class Context:
    """Where a statement stands: extents of the loops around it, and which of them is parallel."""

    machine: Machine
    extents: dict[str, int]
    parallel: str | None
    private: frozenset[str]


def verify(program: Program, machine: Machine) -> None:
    """Raise ProgramError or LdmError unless the mesh-level `program` keeps every rule."""
    mesh = (machine.mesh.rows, machine.mesh.cols)
    if program.mesh != mesh:
        raise ProgramError(
            f"{program.name} is for a mesh of {program.mesh}, {machine.name} has {mesh}"
        )
    for stmt, context in _statements(program.body, Context(machine, {}, None, frozenset())):
        for rule in RULES:
            problem = rule(stmt, context)
            if problem:
                loops = ", ".join(f"{n} < {e}" for n, e in context.extents.items()) or "no loop"
                raise ProgramError(f"{program.name}: {statement_text(stmt)} ({loops}): {problem}")
    peak, usable = layout(program).ldm_peak_bytes, machine.ldm.usable_bytes
    if peak > usable:
        raise LdmError(f"{program.name}: {peak} B of {usable} B LDM on every CPE")
    check_flow(program)


def _statements(stmt: Stmt, context: Context) -> Iterator[tuple[Stmt, Context]]:
    """Every statement with its context, outermost first."""
    if isinstance(stmt, Seq):
        for part in stmt.body:
            yield from _statements(part, context)
            if isinstance(part, Alloc) and part.buffer.scope is Scope.MEM and context.parallel:
                names = context.private | {part.buffer.name}
                context = Context(context.machine, context.extents, context.parallel, names)
    else:
        yield stmt, context
        if isinstance(stmt, For):
            extents = {**context.extents, stmt.var: stmt.extent}
            parallel = stmt.var if stmt.parallel else context.parallel
            inner = Context(context.machine, extents, parallel, context.private)
            yield from _statements(stmt.body, inner)
        elif isinstance(stmt, If):
            for branch in (stmt.then, stmt.otherwise):
                yield from _statements(branch, context)


def _regions(stmt: Stmt) -> tuple[Region, ...]:
    if isinstance(stmt, Copy):
        return stmt.ldm, stmt.mem
    return stmt.args if isinstance(stmt, Apply) else ()


def level(stmt: Stmt, context: Context) -> str | None:
    """Messages between CPEs exist after expansion only."""
    return "belongs to CPE level" if isinstance(stmt, Send | Recv | If) else None


def loops(stmt: Stmt, context: Context) -> str | None:
    """A loop runs at least once, has a variable of its own, and is parallel outermost only."""
    if not isinstance(stmt, For):
        return None
    if stmt.extent < 1:
        return "runs less than once"
    if stmt.var in context.extents:
        return f"variable {stmt.var} is taken by an outer loop"
    return "is parallel inside a loop" if stmt.parallel and context.extents else None


def partition(stmt: Stmt, context: Context) -> str | None:
    """A tile is dealt in equal blocks, each mesh direction at most once."""
    if not isinstance(stmt, Alloc) or stmt.buffer.scope is Scope.MEM:
        return None
    buffer, mesh = stmt.buffer, (context.machine.mesh.rows, context.machine.mesh.cols)
    if len(buffer.partition) != len(buffer.shape):
        return f"{len(buffer.shape)} axes, {len(buffer.partition)} of them dealt"
    dealt = [along for along in buffer.partition if along is not Along.NONE]
    if len(set(dealt)) != len(dealt) or (Along.MESH in dealt and len(dealt) > 1):
        return f"dealt twice: {[along.value for along in dealt]}"
    for size, along in zip(buffer.shape, buffer.partition, strict=True):
        if size % along.ways(mesh):
            return f"{size} elements in {along.ways(mesh)} blocks"
    return None


def bounds(stmt: Stmt, context: Context) -> str | None:
    """Every region lies in its buffer, and every slot exists, for all loop values."""
    for region in _regions(stmt):
        buffer = region.buffer
        if len(region.shape) != len(buffer.shape) or len(region.start) != len(buffer.shape):
            return f"{region} has not the {len(buffer.shape)} axes of {buffer.name}"
        for axis, (start, size) in enumerate(zip(region.start, region.sizes, strict=True)):
            low, high = start.bounds(context.extents)
            if size < 1 or low < 0 or high + size > buffer.shape[axis]:
                whole = buffer.shape[axis]
                return f"axis {axis} of {region} spans {low} to {high + size} of 0 to {whole}"
        slot = region.slot
        high = slot.modulus - 1 if isinstance(slot, Mod) else slot.bounds(context.extents)[1]
        if high >= buffer.slots:
            return f"slot {high} of {buffer.name}, which has {buffer.slots}"
    return None


def dealt_from_start(stmt: Stmt, context: Context) -> str | None:
    """A region of a tile starts at 0 on every axis that is dealt over the mesh."""
    for region in _regions(stmt):
        for start, along in zip(region.start, region.buffer.partition, strict=False):
            if along is not Along.NONE and start != ZERO:
                return f"{region} starts inside an axis dealt by {along.value}"
    return None


def copies(stmt: Stmt, context: Context) -> str | None:
    """A copy joins equal boxes of one type, in the LDM and in memory; a put has one source."""
    if not isinstance(stmt, Copy):
        return None
    ldm, mem = stmt.ldm, stmt.mem
    if ldm.buffer.scope is not Scope.LDM or mem.buffer.scope is not Scope.MEM:
        return f"copies {ldm.buffer.scope.value} and {mem.buffer.scope.value}"
    if ldm.buffer.dtype != mem.buffer.dtype:
        return f"{ldm.buffer.name} holds {ldm.buffer.dtype}, memory {mem.buffer.dtype}"
    if len(set(stmt.axes)) != len(ldm.shape):
        return f"axes {stmt.axes} for {len(ldm.shape)} axes of the tile"
    named = tuple(mem.shape[axis] for axis in stmt.axes)
    others = [n for axis, n in enumerate(mem.shape) if axis not in stmt.axes]
    if named != ldm.shape or any(n != 1 for n in others):
        return f"shapes {ldm.shape} and {mem.shape} differ along axes {stmt.axes}"
    dealt = {along for along in ldm.buffer.partition if along is not Along.NONE}
    if stmt.direction is Direction.PUT and dealt not in ({Along.MESH}, {Along.ROW, Along.COL}):
        return f"several CPEs hold each element of {ldm.buffer.name}"
    return None


def races(stmt: Stmt, context: Context) -> str | None:
    """Iterations of a parallel loop put to disjoint boxes, or to scratch of their own."""
    if not (isinstance(stmt, Copy) and stmt.direction is Direction.PUT and context.parallel):
        return None
    if stmt.mem.buffer.name in context.private:
        return None
    for start, size in zip(stmt.mem.start, stmt.mem.sizes, strict=True):
        step = dict(start.terms).get(context.parallel, 0)
        rest = Affine(0, tuple(t for t in start.terms if t[0] != context.parallel))
        low, high = rest.bounds(context.extents)
        if step >= high - low + size:
            return None
    if context.extents[context.parallel] == 1:
        return None
    return f"iterations of {context.parallel} put to the same part of {stmt.mem.buffer.name}"


def intrinsics(stmt: Stmt, context: Context) -> str | None:
    """Arguments lie in the LDM and fit the primitive."""
    if not isinstance(stmt, Apply):
        return None
    for region in stmt.args:
        if region.buffer.scope is not Scope.LDM:
            return f"{region} lies in memory"
    return stmt.intrinsic.refuse(stmt.args, context.machine)


RULES: tuple[Callable[[Stmt, Context], str | None], ...] = (
    level,
    loops,
    partition,
    bounds,
    dealt_from_start,
    copies,
    races,
    intrinsics,
)
"""Each rule names what is wrong with a statement, or returns None. LDM capacity and data flow
need the whole program and come after them."""
