"""A CPE-level program as the body of a C function.

What the program says is what the C does: the same loops, the same copies with the same replies,
buffers at the offsets that `layout` gives them in one piece of LDM. The one thing added is a
barrier where a program in lockstep needs none.
"""

from __future__ import annotations

from collections.abc import Iterator

from swcaffe.codegen.barriers import barriers
from swcaffe.codegen.calls import apply_text
from swcaffe.codegen.expressions import C_TYPES, axes, call, identifier, pointer, slot
from swcaffe.ir.buffer import Buffer, Region, Scope, strides
from swcaffe.ir.expr import Affine, Mod
from swcaffe.ir.layout import Layout, layout
from swcaffe.ir.stmt import (
    Alloc,
    Apply,
    Bus,
    Copy,
    Direction,
    For,
    If,
    Program,
    Recv,
    Reply,
    Send,
    Seq,
    Stmt,
    Wait,
)
from swcaffe.ir.visitor import Visitor

__all__ = ["body", "replies", "used", "written"]

BARRIER = "athread_syn(ARRAY_SCOPE, 0xffff);"
"""Every CPE of all rows and columns."""


def body(program: Program) -> list[str]:
    """The statements of a CPE-level program, without declarations of parameters and replies."""
    assert program.level == "cpe", f"{program.name} is not expanded"
    return _Writer(layout(program), used(program), barriers(program)).visit(program.body)


def used(program: Program) -> frozenset[Buffer]:
    """Buffers that some statement touches."""
    return frozenset(r.buffer for stmt, _ in _statements(program.body, {}) for r in _regions(stmt))


def written(program: Program) -> frozenset[Buffer]:
    """Main memory that some copy puts to."""
    copies = (stmt for stmt, _ in _statements(program.body, {}) if isinstance(stmt, Copy))
    return frozenset(copy.mem.buffer for copy in copies if copy.direction is Direction.PUT)


def replies(program: Program) -> dict[str, int]:
    """Reply words by name, and how many there are of each."""
    counts: dict[str, int] = {}
    for stmt, extents in _statements(program.body, {}):
        if isinstance(stmt, Copy | Wait):
            value = stmt.reply.slot
            top = value.modulus if isinstance(value, Mod) else value.bounds(extents)[1] + 1
            counts[stmt.reply.name] = max(top, counts.get(stmt.reply.name, 0))
    return counts


def _statements(stmt: Stmt, extents: dict[str, int]) -> Iterator[tuple[Stmt, dict[str, int]]]:
    """Every statement, and the extents of the loops around it."""
    if isinstance(stmt, Seq):
        for part in stmt.body:
            yield from _statements(part, extents)
        return
    yield stmt, extents
    if isinstance(stmt, For):
        yield from _statements(stmt.body, {**extents, stmt.var: stmt.extent})
    elif isinstance(stmt, If):
        yield from _statements(stmt.then, extents)
        yield from _statements(stmt.otherwise, extents)


def _regions(stmt: Stmt) -> tuple[Region, ...]:
    if isinstance(stmt, Copy):
        return stmt.ldm, stmt.mem
    if isinstance(stmt, Apply):
        return stmt.args
    if isinstance(stmt, Send):
        return (stmt.source,)
    return (stmt.target,) if isinstance(stmt, Recv) else ()


class _Writer(Visitor[list[str]]):
    """Lines of each statement, indented from their own start."""

    def __init__(self, places: Layout, used: frozenset[Buffer], late: frozenset[int]) -> None:
        """`late` holds the `id` of copies that wait for all CPEs."""
        self.places, self.used, self.late = places, used, late

    def seq(self, stmt: Seq) -> list[str]:
        lines: list[str] = []
        for part in _alone(stmt).body:
            inner = self.visit(part)
            lines += ["{", *_indented(inner), "}"] if isinstance(part, Seq) else inner
        return lines

    def for_(self, stmt: For) -> list[str]:
        name = identifier(stmt.var)
        head = f"for (long {name} = 0; {name} < {stmt.extent}; {name}++) {{"
        note = ["/* iterations are independent */"] if stmt.parallel else []
        return [*note, head, *_indented(self.seq(stmt.body)), "}"]

    def if_(self, stmt: If) -> list[str]:
        then, other = _indented(self.seq(stmt.then)), _indented(self.seq(stmt.otherwise))
        return [f"if ({stmt.zero} == 0) {{", *then, *(["} else {", *other] if other else []), "}"]

    def alloc(self, stmt: Alloc) -> list[str]:
        buffer = stmt.buffer
        if buffer not in self.used:
            return []
        kind, name = C_TYPES[buffer.dtype], identifier(buffer.name)
        if buffer.scope is Scope.LDM:
            return [f"{kind} *const {name} = ({kind} *)(ldm + {self.places.ldm[buffer]});"]
        offset = self.places.shared.get(buffer)
        if offset is None:
            offset = self.places.shared_count + self.places.private[buffer]
        return [f"{kind} *const {name} = args.scratch + {offset};"]

    def copy(self, stmt: Copy) -> list[str]:
        memory = strides(stmt.mem.buffer.shape)
        box = axes(
            stmt.ldm.shape,
            strides(stmt.ldm.buffer.shape),
            tuple(memory[axis] for axis in stmt.axes),
        )
        sides = pointer(stmt.ldm), pointer(stmt.mem)
        name = f"sw_{stmt.direction.value}"
        barrier = [BARRIER] if id(stmt) in self.late else []
        return [*barrier, *call(name, _reply(stmt.reply), *sides, len(stmt.ldm.shape), box)]

    def wait(self, stmt: Wait) -> list[str]:
        return call("sw_wait", _reply(stmt.reply))

    def apply(self, stmt: Apply) -> list[str]:
        return apply_text(stmt)

    def send(self, stmt: Send) -> list[str]:
        return _message("send", stmt.bus, stmt.source)

    def recv(self, stmt: Recv) -> list[str]:
        return _message("recv", stmt.bus, stmt.target)


def _alone(stmt: Seq) -> Seq:
    """Scopes with nothing but a scope in them are that scope."""
    while len(stmt.body) == 1 and isinstance(stmt.body[0], Seq):
        stmt = stmt.body[0]
    return stmt


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _reply(reply: Reply) -> str:
    return f"&{identifier(reply.name)}_reply[{slot(reply.slot)}]"


def _message(verb: str, bus: Bus, region: Region) -> list[str]:
    """Messages of a contiguous region."""
    count = Affine(1)
    for size in region.shape:
        assert isinstance(size, int), f"{region} differs between CPEs"
        count = count * size
    wide = int(region.buffer.dtype == "f64")
    return call(f"sw_{verb}_{bus.value}", pointer(region), count, wide)
