"""Where CPEs must wait for each other because one reads or overwrites memory that another wrote.

A program runs in lockstep on paper; on the machine each CPE goes on by itself, and only register
messages hold it back. A copy therefore needs a barrier before it if it may touch memory that a copy
since the last barrier touched on another CPE, one of the two being a put.
"""

from __future__ import annotations

from swcaffe.ir.buffer import MeshShape, Region
from swcaffe.ir.expr import Affine, Clamp, Extent, largest
from swcaffe.ir.stmt import Copy, Direction, For, If, Program, Seq, Stmt

__all__ = ["barriers"]

_PLACES = frozenset({"ROW", "COL"})


def barriers(program: Program) -> frozenset[int]:
    """`id` of each copy of a CPE-level program that needs a barrier before it."""
    search = _Search(program.mesh)
    search.walk(program.body, {})
    return frozenset(search.found)


class _Search:
    """Walks a program with the copies since the last barrier, by id."""

    def __init__(self, mesh: MeshShape) -> None:
        self.found: set[int] = set()
        self.extents = {"ROW": mesh[0], "COL": mesh[1]}
        self.boxes: dict[int, list[tuple[int, int]]] = {}

    def walk(self, stmt: Stmt, since: dict[int, Copy]) -> dict[int, Copy]:
        """The copies since the last barrier behind a statement."""
        if isinstance(stmt, Seq):
            for part in stmt.body:
                since = self.walk(part, since)
        elif isinstance(stmt, For):
            self.extents[stmt.var] = stmt.extent
            behind = self.walk(stmt.body, since)
            if stmt.extent > 1:  # what an iteration leaves stands before the next
                behind = self.walk(stmt.body, {**since, **behind})
            return behind
        elif isinstance(stmt, If):
            return {**self.walk(stmt.then, since), **self.walk(stmt.otherwise, since)}
        elif isinstance(stmt, Copy):
            others = since.values()
            if id(stmt) in self.found or any(self.conflict(stmt, other) for other in others):
                self.found.add(id(stmt))
                since = {}
            return {**since, id(stmt): stmt}
        return since

    def conflict(self, one: Copy, other: Copy) -> bool:
        """Whether one may touch what the other touched on another CPE."""
        if one.mem.buffer != other.mem.buffer:
            return False
        if Direction.PUT not in (one.direction, other.direction):
            return False
        pairs = zip(self.box(one.mem), self.box(other.mem), strict=True)
        if any(a[1] <= b[0] or b[1] <= a[0] for a, b in pairs):
            return False
        alike = one.mem.start == other.mem.start and one.mem.shape == other.mem.shape
        return not (alike and self.owned(one.mem))

    def box(self, region: Region) -> list[tuple[int, int]]:
        """First element and end along each axis, over all loops and CPEs."""
        found = self.boxes.get(id(region))
        if found is None:
            found = []
            for start, size in zip(region.start, region.shape, strict=True):
                places, valid = _partly_filled(start, size)
                low, high = (start - places).bounds(self.extents)
                found.append((low, high + valid))
            self.boxes[id(region)] = found
        return found

    def owned(self, region: Region) -> bool:
        """Whether each element belongs to one CPE, whatever the loops do."""
        names = {name for start in region.start for name, _ in start.terms}
        pairs = zip(region.start, region.shape, strict=True)
        return names >= _PLACES and all(self.apart(start, size) for start, size in pairs)

    def apart(self, start: Affine, size: Extent) -> bool:
        """Whether stretches of `size` from different values of the variables never overlap.

        They do not if each variable steps over all that the finer ones reach. What a tile that is
        not full reaches, all CPEs together, is its valid length.
        """
        places, valid = _partly_filled(start, size)
        tile = self.reach(places, largest(size))
        if tile is None:
            return False
        return self.reach(start - places, valid if places.terms else tile) is not None

    def reach(self, start: Affine, span: int) -> int | None:
        """Elements from the first to the last stretch of `span`; None if some overlap."""
        for name, factor in sorted(start.terms, key=lambda term: abs(term[1])):
            if abs(factor) < span and self.extents[name] > 1:
                return None
            span += abs(factor) * (self.extents[name] - 1)
        return span


def _partly_filled(start: Affine, size: Extent) -> tuple[Affine, int]:
    """For a tile that is not full: the part of `start` that is the CPE's place, and the length of
    the tile that is valid, all CPEs together. Else nothing, and the size of a CPE's part.
    """
    places = Affine(0, tuple(term for term in start.terms if term[0] in _PLACES))
    if isinstance(size, Clamp) and not (size.value + places).terms:
        return places, size.value.const
    return Affine(), largest(size)
