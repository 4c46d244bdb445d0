"""Where buffers lie: LDM offsets, and main memory scratch, by the nesting of Allocs alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swcaffe.ir.buffer import Buffer, MeshShape, Scope
from swcaffe.ir.stmt import Alloc, For, If, Program, Seq, Stmt

__all__ = ["MEM_ALIGNMENT", "Layout", "layout"]

MEM_ALIGNMENT = 32
"""Scratch buffers start at a multiple of this many elements: one memory transaction."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets of all buffers that a program allocates.

    ldm             buffer -> byte offset in each CPE's LDM
    ldm_peak_bytes  highest byte used, on each CPE
    shared          main memory scratch of the whole program -> element offset
    private         scratch of one iteration of a parallel loop -> element offset
    """

    ldm: dict[Buffer, int]
    ldm_peak_bytes: int
    shared: dict[Buffer, int]
    private: dict[Buffer, int]
    shared_count: int
    private_count: int


def layout(program: Program) -> Layout:
    """Stack allocation in the LDM: storage is free again when the enclosing Seq ends."""
    ldm: dict[Buffer, int] = {}
    tables: tuple[dict[Buffer, int], dict[Buffer, int]] = ({}, {})
    counts, peak = [0, 0], 0
    for buffer, top, private in _allocs(program.body, 0, False, program.mesh):
        assert buffer not in ldm and not any(buffer in t for t in tables), f"{buffer} twice"
        if buffer.scope is Scope.LDM:
            ldm[buffer] = top
            peak = max(peak, top + buffer.block_bytes(program.mesh))
        else:
            tables[private][buffer] = counts[private]
            counts[private] += -(-buffer.count // MEM_ALIGNMENT) * MEM_ALIGNMENT
    return Layout(ldm, peak, tables[0], tables[1], counts[0], counts[1])


def _allocs(
    stmt: Stmt, top: int, private: bool, mesh: MeshShape
) -> Iterator[tuple[Buffer, int, bool]]:
    """(buffer, LDM bytes in use before it, inside a parallel loop) of each Alloc."""
    if isinstance(stmt, Seq):
        for part in stmt.body:
            if isinstance(part, Alloc):
                yield part.buffer, top, private
                if part.buffer.scope is Scope.LDM:
                    top += part.buffer.block_bytes(mesh)
            else:
                yield from _allocs(part, top, private, mesh)
    elif isinstance(stmt, For):
        yield from _allocs(stmt.body, top, private or stmt.parallel, mesh)
    elif isinstance(stmt, If):
        for branch in (stmt.then, stmt.otherwise):
            yield from _allocs(branch, top, private, mesh)
