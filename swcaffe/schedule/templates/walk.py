"""Operators that are limited by memory: tiles stream through the LDMs, formulas are applied there.

Each pass of a Walk fetches a tile of every stream while the one before is computed, and stores its
results at once. Tiles are (outer, channels, inner) as memory has them. How they are dealt over the
mesh is a knob: long rows of memory for each CPE are best, and where channels are summed, each
channel belongs to one CPE, so that sums need no messages and have one order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from swcaffe.arrays import Shape
from swcaffe.ir.buffer import Along, Buffer, Region
from swcaffe.ir.builder import Builder, Span, box
from swcaffe.ir.expr import ZERO, Affine, Slot
from swcaffe.ir.intrinsics.fill import Zero
from swcaffe.ir.intrinsics.map import ChannelSum, Map
from swcaffe.ir.stmt import MAX_PARAMS, Program, Reply
from swcaffe.ir.vector import VectorCode
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.schedule.passes import PASSES, Finish, Pass, Walk
from swcaffe.schedule.space import Config, ConfigSpace, Knob
from swcaffe.schedule.template import TEMPLATES, Template

__all__ = ["DEALS", "WalkTemplate"]

MESH, ROW, COL, NONE = Along.MESH, Along.ROW, Along.COL, Along.NONE

DEALS = (
    (MESH, NONE, NONE),
    (NONE, MESH, NONE),
    (ROW, COL, NONE),
    (NONE, ROW, COL),
    (NONE, NONE, MESH),
)
"""Ways to deal (outer, channels, inner); in the second, a channel belongs to one CPE."""
BY_CHANNEL = 1

AXES = (0, 1, 2)
STREAM_SLOTS = 2


class WalkTemplate(Template):
    """All operators that have a Walk."""

    name: ClassVar[str] = "walk"

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """Something to do, and tiles that fit the LDM."""
        walk = PASSES[type(op)](op)
        if math.prod(walk.shape) == 0:
            return f"an empty walk over {walk.shape}"
        operands = len(op.inputs) + len(op.outputs)
        if operands > MAX_PARAMS:
            return f"{operands} operands, a program takes {MAX_PARAMS}"
        return None if next(iter(self.space(op, machine)), None) else "no tile fits the LDM"

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """How tiles are dealt, and elements of a block: from all of the LDM down."""
        walk = PASSES[type(op)](op)
        deals = (BY_CHANNEL,) if walk.has_sums else tuple(range(len(DEALS)))
        if walk.shape[1:] == (1, 1):
            deals = (0,)
        most = machine.ldm.usable_bytes // (4 * _streams(walk))
        blocks = tuple(sorted({max(8, most // d // 8 * 8) for d in (2, 4, 8, 16, 32)}))
        return ConfigSpace(
            (Knob("deal", deals), Knob("block", blocks)),
            lambda c: _Tiling.of(walk, c, machine).ldm_bytes <= machine.ldm.usable_bytes,
        )

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """Rough cycles: whole transactions of the rows of memory, by the CPEs that have any."""
        walk = PASSES[type(op)](op)
        tiling = _Tiling.of(walk, config, machine)
        line = machine.dma.transaction_bytes
        waste = 1 + line / (4 * tiling.run)
        share = min(machine.mesh.cpes, tiling.busy) / machine.mesh.cpes
        bandwidth = machine.dma.peak_bytes_per_s * min(1.0, 4 * share)
        steps = math.prod(-(-n // t) for n, t in zip(walk.shape, tiling.shape, strict=True))
        seconds = 4 * math.prod(walk.shape) * waste / bandwidth
        return seconds * machine.mesh.clock_hz + steps * machine.dma.start_cycles

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """Shares of outer for the core groups, or channels where they are summed; then passes."""
        walk = PASSES[type(op)](op)
        tiling = _Tiling.of(walk, config, machine)
        b = Builder(
            f"{self.name}_{_words(type(op).__name__)}", (machine.mesh.rows, machine.mesh.cols)
        )
        emitter = _Emitter(b, op, walk, tiling)
        outer, channels, _ = walk.shape
        if walk.has_sums:
            b.tiles(
                "c",
                channels,
                tiling.shape[1],
                lambda c, count: emitter.channels((ZERO, outer), (c, count)),
                parallel=True,
            )
            return b.build()

        def share(start: Affine, count: int) -> None:
            b.tiles(
                "c",
                channels,
                tiling.shape[1],
                lambda c, size: emitter.channels((start, count), (c, size)),
            )

        b.tiles("g", outer, max(1, outer // machine.core_groups), share, parallel=True)
        return b.build()


def _words(name: str) -> str:
    """CamelCase as snake_case."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _buffers(part: Pass) -> int:
    """Tiles of one slot that a pass needs."""
    return STREAM_SLOTS * len(part.reads) + sum(_stored(part))


def _stored(part: Pass) -> list[bool]:
    """For each result, whether it needs a tile: what a stream holds already does not."""
    return [result >= len(part.reads) for result in part.code.results]


def _streams(walk: Walk) -> int:
    return max(_buffers(part) for part in walk.parts if isinstance(part, Pass))


@dataclass(frozen=True, slots=True)
class _Tiling:
    """Shape of a tile over the whole mesh; `block` of one CPE, `deal` how it is dealt."""

    walk: Walk
    deal: tuple[Along, Along, Along]
    block: Shape
    ways: Shape

    @classmethod
    def of(cls, walk: Walk, config: Config, machine: Machine) -> _Tiling:
        """Blocks of at most so many elements, filled from the innermost axis on."""
        deal = DEALS[config["deal"]]
        mesh = (machine.mesh.rows, machine.mesh.cols)
        ways = tuple(along.ways(mesh) for along in deal)
        left, block = config["block"], []
        for size, parts in reversed(list(zip(walk.shape, ways, strict=True))):
            block.append(max(1, min(-(-size // parts), left)))
            left //= block[-1]
        return cls(walk, deal, tuple(reversed(block)), ways)

    @property
    def shape(self) -> Shape:
        """Of a tile."""
        return tuple(n * parts for n, parts in zip(self.block, self.ways, strict=True))

    @property
    def ldm_bytes(self) -> int:
        """Streams, results and vectors on each CPE, each rounded up to a vector register."""
        tiles = _streams(self.walk)
        vectors = len(self.walk.vectors) + 1
        return tiles * (4 * math.prod(self.block) + 32) + vectors * (4 * self.block[1] + 32)

    @property
    def run(self) -> int:
        """Elements in memory without a gap that one CPE copies."""
        run = 1
        for size, n in reversed(list(zip(self.walk.shape, self.block, strict=True))):
            run *= n
            if n < size:
                break
        return run

    @property
    def busy(self) -> int:
        """CPEs that have a part of a tile."""
        found = 1
        for size, n, parts in zip(self.walk.shape, self.block, self.ways, strict=True):
            found *= min(parts, -(-size // n))
        return found


@dataclass(slots=True)
class _Emitter:
    """Writes one operator's program."""

    b: Builder
    op: Operator
    walk: Walk
    tiling: _Tiling
    memory: dict[str, list[Buffer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Declare the operands; one that is read and written stands twice, in this order."""
        for operand in (*self.op.inputs, *self.op.outputs):
            vector = operand.name in self.walk.vectors or operand.name == "hyper"
            shape = operand.shape if vector else self.walk.shape
            self.memory.setdefault(operand.name, []).append(self.b.param(operand.name, shape))

    def channels(self, outer: Span, channels: Span) -> None:
        """Everything that happens to a tile of channels and a share of outer."""
        b = self.b
        with b.scope():
            vectors = self._vectors(channels)
            for part in self.walk.parts:
                if isinstance(part, Finish):
                    self._finish(part, vectors)
                else:
                    self._sums_start(part, vectors, channels)
                    with b.scope():
                        self._walk(part, vectors, outer, channels)
            for operand in self.op.outputs:
                if operand.name in self.walk.vectors:
                    b.put(
                        vectors[operand.name],
                        box(self.memory[operand.name][-1], channels),
                        Reply("vector"),
                    )
                    b.wait(Reply("vector"))

    def _vectors(self, channels: Span) -> dict[str, Region]:
        """Their valid parts; those that are inputs are fetched."""
        b, size = self.b, self.tiling.shape[1]
        found: dict[str, Region] = {}
        inputs = {operand.name: operand for operand in self.op.inputs}
        for name in self.walk.vectors:
            tile = b.tile(name, (size,), (self.tiling.deal[1],))
            found[name] = box(tile, channels[1])
            if name in inputs:
                b.get(found[name], box(self.memory[name][0], channels), Reply("vector"))
                b.wait(Reply("vector"))
        if "hyper" in inputs:
            count = inputs["hyper"].count
            tile = b.tile("hyper", (count,), (NONE,))
            b.get(box(tile), box(self.memory["hyper"][0]), Reply("vector"))
            b.wait(Reply("vector"))
            found.update({f"hyper{i}": box(tile, (i, 1)) for i in range(count)})
        return found

    def _sums_start(self, part: Pass, vectors: dict[str, Region], channels: Span) -> None:
        """Sums start at 0, or at what is in memory."""
        added = {operand.name for operand in self.op.outputs if operand.accumulate}
        for name in part.sums:
            if name in added:
                self.b.get(vectors[name], box(self.memory[name][-1], channels), Reply("vector"))
                self.b.wait(Reply("vector"))
            else:
                self.b.apply(Zero(), vectors[name])

    def _finish(self, part: Finish, vectors: dict[str, Region]) -> None:
        names = (*part.writes, *part.reads)
        self.b.apply(Map(part.code, ((0,),) * len(part.reads)), *(vectors[name] for name in names))

    def _walk(self, part: Pass, vectors: dict[str, Region], outer: Span, channels: Span) -> None:
        """Tiles of inner, and in each, double-buffered tiles of outer."""
        b, shape, deal = self.b, self.tiling.shape, self.tiling.deal
        slots = STREAM_SLOTS if outer[1] > shape[0] else 1
        streams = [b.tile(name, shape, deal, slots) for name in part.reads]
        results = [b.tile("out", shape, deal) if need else None for need in _stored(part)]
        step = _Step(self, part, vectors, streams, results, outer[0], channels)
        b.tiles(
            "x",
            self.walk.shape[2],
            shape[2],
            lambda x, size: b.pipeline(
                "o", outer[1], shape[0], step.fetch((x, size)), step.compute((x, size))
            ),
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """One tile of one pass."""

    emitter: _Emitter
    part: Pass
    vectors: dict[str, Region]
    streams: list[Buffer]
    results: list[Buffer | None]
    start: Affine | int
    channels: Span

    def fetch(self, inner: Span) -> Callable[[Affine, int, Slot], None]:
        """Start the copies of all streams."""

        def fetch(o: Affine, count: int, slot: Slot) -> None:
            for name, tile in zip(self.part.reads, self.streams, strict=True):
                memory = self.emitter.memory[name][0]
                ldm = box(tile, count, self.channels[1], inner[1], slot=slot)
                mem = box(memory, (o + self.start, count), self.channels, inner)
                self.emitter.b.get(ldm, mem, Reply("in", slot))

        return fetch

    def compute(self, inner: Span) -> Callable[[Affine, int, Slot, bool], None]:
        """Await the streams, apply the code, store or sum its results."""
        b, part = self.emitter.b, self.part

        def compute(o: Affine, count: int, slot: Slot, first: bool) -> None:
            sizes = (count, self.channels[1], inner[1])
            b.wait(Reply("in", slot), len(self.streams))
            sources = [box(tile, *sizes, slot=slot) for tile in self.streams]
            results = [
                sources[number] if tile is None else box(tile, *sizes)
                for number, tile in zip(part.code.results, self.results, strict=True)
            ]
            self._apply(sources, [r for r, t in zip(results, self.results, strict=True) if t])
            for name, result in zip(part.sums, results, strict=False):
                b.apply(ChannelSum(1), self.vectors[name], result)
            for name, result in zip(part.writes, results, strict=False):
                memory = self.emitter.memory[name][-1]
                mem = box(memory, (o + self.start, count), self.channels, inner)
                b.put(result, mem, Reply("out"))
            if part.writes:
                b.wait(Reply("out"), len(part.writes))

        return compute

    def _apply(self, sources: list[Region], targets: list[Region]) -> None:
        """The code, less results that are streams themselves."""
        if not targets:
            return
        part = self.part
        kept = tuple(
            number
            for number, tile in zip(part.code.results, self.results, strict=True)
            if tile is not None
        )
        code = VectorCode(part.code.inputs, part.code.constants, part.code.steps, kept)
        spans = tuple(() if name.startswith("hyper") else (1,) for name in part.vectors)
        vectors = [self.vectors[name] for name in part.vectors]
        intrinsic = Map(code, (AXES,) * len(sources) + spans)
        self.emitter.b.apply(intrinsic, *targets, *sources, *vectors)


_WALK = WalkTemplate()
for _op_class in PASSES:
    TEMPLATES.setdefault(_op_class, []).append(_WALK)
