"""Visitor: walks a program, one method for each node kind."""

from __future__ import annotations

from keyword import iskeyword
from typing import Generic, TypeVar

from swcaffe.ir.stmt import Alloc, Apply, Copy, For, If, Recv, Send, Seq, Stmt, Wait

__all__ = ["Rewriter", "Visitor"]

R = TypeVar("R")


class Visitor(Generic[R]):
    """Calls the method named after the node's class, in lower case: `copy`, `for_`, `if_`."""

    def visit(self, stmt: Stmt) -> R:
        """Dispatch on the node's kind."""
        name = type(stmt).__name__.lower()
        result: R = getattr(self, f"{name}_" if iskeyword(name) else name)(stmt)
        return result


class Rewriter(Visitor[Stmt]):
    """Rebuilds a tree; subclasses override the kinds that they change."""

    def seq(self, stmt: Seq) -> Seq:
        """Rewrite the parts in order."""
        return Seq(tuple(self.visit(part) for part in stmt.body))

    def alloc(self, stmt: Alloc) -> Stmt:
        """Keep."""
        return stmt

    def copy(self, stmt: Copy) -> Stmt:
        """Keep."""
        return stmt

    def wait(self, stmt: Wait) -> Stmt:
        """Keep."""
        return stmt

    def apply(self, stmt: Apply) -> Stmt:
        """Keep."""
        return stmt

    def send(self, stmt: Send) -> Stmt:
        """Keep."""
        return stmt

    def recv(self, stmt: Recv) -> Stmt:
        """Keep."""
        return stmt

    def if_(self, stmt: If) -> Stmt:
        """Rewrite both branches."""
        return If(stmt.zero, self.seq(stmt.then), self.seq(stmt.otherwise))

    def for_(self, stmt: For) -> Stmt:
        """Rewrite the body."""
        return For(stmt.var, stmt.extent, self.seq(stmt.body), stmt.parallel)
