"""Canonical text of a program: what golden tests compare and people read."""

from __future__ import annotations

from dataclasses import fields

from swcaffe.ir.buffer import Buffer, Scope
from swcaffe.ir.intrinsic import Intrinsic
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
from swcaffe.ir.visitor import Visitor

__all__ = ["statement_text", "text"]


def text(program: Program) -> str:
    """The program, one statement a line, two blanks for each level of nesting."""
    rows, cols = program.mesh
    params = "".join(f"  param {_buffer(p)}\n" for p in program.params)
    head = f"program {program.name} on {rows} x {cols} at {program.level} level\n{params}"
    return head + "\n".join(f"  {line}" for line in _Printer().visit(program.body)) + "\n"


def statement_text(stmt: Stmt) -> str:
    """The first line of a statement."""
    return next(iter(_Printer().visit(stmt)), "nothing")


def _buffer(buffer: Buffer) -> str:
    dims = "x".join(str(n) for n in buffer.shape)
    dealt = "" if not buffer.partition else f" by {' '.join(a.value for a in buffer.partition)}"
    slots = "" if buffer.slots == 1 else f" {buffer.slots} slots"
    place = "" if buffer.scope is Scope.LDM else " mem"
    return f"{buffer.name} {dims} {buffer.dtype}{place}{dealt}{slots}"


def _intrinsic(intrinsic: Intrinsic) -> str:
    items = fields(intrinsic)  # type: ignore[arg-type]  # subclasses are dataclasses
    values = [
        (f.name, getattr(intrinsic, f.name))
        for f in items
        if f.default != getattr(intrinsic, f.name)
    ]
    flags = [name if value is True else f"{name}={value}" for name, value in values]
    return f"{intrinsic.name}({', '.join(flags)})" if flags else intrinsic.name


class _Printer(Visitor[list[str]]):
    """Lines of each statement."""

    def seq(self, stmt: Seq) -> list[str]:
        lines: list[str] = []
        for part in stmt.body:
            inner = self.visit(part)
            lines += ["scope", *(f"  {line}" for line in inner)] if isinstance(part, Seq) else inner
        return lines

    def for_(self, stmt: For) -> list[str]:
        body = [f"  {line}" for line in self.seq(stmt.body)]
        return [f"for {stmt.var} < {stmt.extent}{' parallel' * stmt.parallel}", *body]

    def if_(self, stmt: If) -> list[str]:
        then = [f"  {line}" for line in self.seq(stmt.then)]
        other = [f"  {line}" for line in self.seq(stmt.otherwise)]
        return [f"if {stmt.zero} == 0", *then, *(["else", *other] if other else [])]

    def alloc(self, stmt: Alloc) -> list[str]:
        return [f"alloc {_buffer(stmt.buffer)}"]

    def copy(self, stmt: Copy) -> list[str]:
        plain = stmt.axes == tuple(range(len(stmt.axes)))
        axes = "" if plain else f" axes {' '.join(str(a) for a in stmt.axes)}"
        arrow = "<-" if stmt.direction is Direction.GET else "->"
        copy = f"{stmt.direction.value} {stmt.ldm} {arrow} {stmt.mem}"
        return [f"{copy}{axes} reply {stmt.reply}"]

    def wait(self, stmt: Wait) -> list[str]:
        return [f"wait {stmt.reply} == {stmt.count}"]

    def apply(self, stmt: Apply) -> list[str]:
        args = ", ".join(str(region) for region in stmt.args)
        return [f"{_intrinsic(stmt.intrinsic)} {args}"]

    def send(self, stmt: Send) -> list[str]:
        return [f"send {stmt.bus.value} {stmt.source}"]

    def recv(self, stmt: Recv) -> list[str]:
        return [f"recv {stmt.bus.value} {stmt.target}"]
