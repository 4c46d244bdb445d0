"""Short syntax to write programs: a builder that collects statements, with the two usual shapes.

`tiles` cuts an axis into equal tiles and a rest; `pipeline` double-buffers a loop over tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from swcaffe.arrays import Shape
from swcaffe.ir.buffer import Along, Buffer, DType, MeshShape, Region, Scope
from swcaffe.ir.expr import ZERO, Affine, Slot, affine, mod, var
from swcaffe.ir.intrinsic import Intrinsic
from swcaffe.ir.intrinsics.fill import ZeroOutside
from swcaffe.ir.stmt import (
    Alloc,
    Apply,
    Copy,
    Direction,
    For,
    Program,
    Reply,
    Seq,
    Stmt,
    Wait,
)

__all__ = ["Builder", "Span", "box", "round_up"]

Span: TypeAlias = tuple[Affine | int, int]
"""Start and extent along one axis."""


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not below."""
    return -(-value // multiple) * multiple


def box(buffer: Buffer, *spans: Span | int, slot: Slot = ZERO) -> Region:
    """The region of these spans; a plain number counts from 0, axes left out are whole."""
    pairs = [(0, span) if isinstance(span, int) else span for span in spans]
    pairs += [(0, size) for size in buffer.shape[len(pairs) :]]
    starts, shape = zip(*pairs, strict=True)
    return Region(buffer, tuple(affine(start) for start in starts), shape, slot)


class Builder:
    """Collects the statements of a program in nested scopes."""

    def __init__(self, name: str, mesh: MeshShape) -> None:
        """An empty program for a mesh of (rows, cols)."""
        self.name = name
        self.mesh = mesh
        self._params: list[Buffer] = []
        self._scopes: list[list[Stmt]] = [[]]
        self._names: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """`name`, with a number behind it from the second time on."""
        self._names[name] = self._names.get(name, 0) + 1
        return name if self._names[name] == 1 else f"{name}{self._names[name]}"

    def param(self, name: str, shape: Shape, dtype: DType = "f32") -> Buffer:
        """The next array that the program is called with."""
        self._params.append(Buffer(self.fresh(name), shape, Scope.MEM, dtype))
        return self._params[-1]

    def scratch(self, name: str, shape: Shape) -> Buffer:
        """Main memory that lives until the scope ends."""
        buffer = Buffer(self.fresh(name), shape, Scope.MEM)
        self.emit(Alloc(buffer))
        return buffer

    def tile(
        self,
        name: str,
        shape: Shape,
        partition: Sequence[Along],
        slots: int = 1,
        dtype: DType = "f32",
    ) -> Buffer:
        """An LDM tile that lives until the scope ends."""
        buffer = Buffer(self.fresh(name), shape, Scope.LDM, dtype, tuple(partition), slots)
        self.emit(Alloc(buffer))
        return buffer

    def emit(self, stmt: Stmt) -> None:
        """Append a statement."""
        self._scopes[-1].append(stmt)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A Seq of its own: its Allocs end with it."""
        self._scopes.append([])
        yield
        body = Seq(tuple(self._scopes.pop()))
        self.emit(body)

    @contextmanager
    def loop(self, name: str, extent: int, *, parallel: bool = False) -> Iterator[Affine]:
        """A loop; gives its variable. One iteration needs no loop, unless it is parallel."""
        if extent == 1 and not parallel:
            with self.scope():
                yield Affine()
            return
        name = self.fresh(name)
        self._scopes.append([])
        yield var(name)
        body = Seq(tuple(self._scopes.pop()))
        self.emit(For(name, extent, body, parallel))

    def apply(self, intrinsic: Intrinsic, *args: Region) -> None:
        """Run an intrinsic."""
        self.emit(Apply(intrinsic, args))

    def get(
        self,
        ldm: Region,
        mem: Region,
        reply: Reply,
        axes: tuple[int, ...] | None = None,
        *,
        padded: bool = False,
    ) -> None:
        """Start a copy to the LDM; padded clears what it leaves of the tile."""
        if padded and not ldm.is_whole:
            self.apply(ZeroOutside(), box(ldm.buffer, slot=ldm.slot), ldm)
        axes = tuple(range(len(ldm.shape))) if axes is None else axes
        self.emit(Copy(Direction.GET, ldm, mem, axes, reply))

    def put(
        self, ldm: Region, mem: Region, reply: Reply, axes: tuple[int, ...] | None = None
    ) -> None:
        """Start a copy to main memory."""
        axes = tuple(range(len(ldm.shape))) if axes is None else axes
        self.emit(Copy(Direction.PUT, ldm, mem, axes, reply))

    def wait(self, reply: Reply, count: int = 1) -> None:
        """Wait for `count` copies."""
        self.emit(Wait(reply, count))

    def tiles(
        self,
        name: str,
        total: int,
        size: int,
        body: Callable[[Affine, int], None],
        *,
        parallel: bool = False,
    ) -> None:
        """body(start, extent) for tiles of `size` and, in a copy of its own, for the rest.

        after:  for i in 0 .. total // size: body(i * size, size);  body(total - rest, rest)
        """
        if total // size:
            with self.loop(name, total // size, parallel=parallel) as index:
                body(index * size, size)
        if total % size:
            with self.loop(name, 1, parallel=parallel) as index:
                body(index + total // size * size, total % size)

    def pipeline(
        self,
        name: str,
        total: int,
        size: int,
        fetch: Callable[[Affine, int, Slot], None],
        compute: Callable[[Affine, int, Slot, bool], None],
    ) -> None:
        """Double buffering: the next tile is fetched while this one is computed.

        fetch(start, extent, slot) issues the copies of a tile; compute(start, extent, slot, first)
        waits for them and works.

        after:  fetch(0); for k: { fetch(k + 1); compute(k) }; compute(last)
        The first step is taken out, as it may overwrite, and the last two, as the rest is smaller.
        """
        full, rest = divmod(total, size)
        count = full + (rest > 0)

        def extent(index: int) -> int:
            return rest if rest and index == count - 1 else size

        def step(index: Affine, fetched: int, computed: int, *, first: bool) -> None:
            if fetched:
                fetch(index * size + size, fetched, mod(index + 1, 2))
            compute(index * size, computed, mod(index, 2), first)

        fetch(Affine(), extent(0), mod(Affine(), 2))
        plain = range(1, count - 2)  # steps that fetch and compute full tiles
        for k in range(count):
            if k in plain and len(plain) > 1:
                if k == plain.start:
                    with self.loop(name, len(plain)) as index:
                        step(index + 1, size, size, first=False)
            else:
                fetched = extent(k + 1) if k + 1 < count else 0
                step(Affine(k), fetched, extent(k), first=k == 0)

    def build(self) -> Program:
        """The finished program."""
        assert len(self._scopes) == 1, f"{len(self._scopes) - 1} open scopes"
        return Program(self.name, self.mesh, tuple(self._params), Seq(tuple(self._scopes[0])))
