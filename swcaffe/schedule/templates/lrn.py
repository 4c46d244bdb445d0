"""Response normalisation: a window is a sum of shifted views of one tile with margins of zeros.

Across channels an image is (image, channel, position), and a CPE holds all channels of its
positions; within a channel it is (plane, row, column), and a CPE holds whole planes. Either way
windows need no messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from swcaffe.arrays import Shape
from swcaffe.ir.buffer import Along, Buffer, Region
from swcaffe.ir.builder import Builder, Span, box
from swcaffe.ir.expr import Affine, Slot
from swcaffe.ir.intrinsics.fill import Zero
from swcaffe.ir.intrinsics.map import Map
from swcaffe.ir.stmt import Program, Reply
from swcaffe.ir.vector import Value, power, trace
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.lrn import LrnBackward, LrnForward, LrnGeometry
from swcaffe.schedule.space import Config, ConfigSpace, Knob
from swcaffe.schedule.template import TEMPLATES, Template

__all__ = ["LrnTemplate"]

DEALS = (
    (Along.ROW, Along.NONE, Along.COL),
    (Along.MESH, Along.NONE, Along.NONE),
    (Along.NONE, Along.NONE, Along.MESH),
)
"""Ways to deal (images, channels, positions)."""
WHOLE_PLANES = 1
"""The only one of them for windows within a channel."""
WIDEST = 25
"""Elements of the largest window: each is an argument of one formula."""
ALL = (0, 1, 2)

Spans: TypeAlias = Callable[[Affine, int], tuple[tuple[Affine, int], tuple[Affine, int]]]
Formula: TypeAlias = Callable[..., Value | tuple[Value, ...]]


def _geometry(op: Operator) -> LrnGeometry:
    assert isinstance(op, LrnForward | LrnBackward), f"{op} does not normalise"
    return op.geometry


@dataclass(frozen=True, slots=True)
class _View:
    """An operator's arrays as three axes; windows reach `halo` beyond an element along each."""

    shape: Shape
    halo: Shape

    @classmethod
    def of(cls, op: Operator) -> _View:
        """(images, channels, positions), or (planes, rows, columns)."""
        g = _geometry(op)
        half = g.size // 2
        if g.region == "across":
            return cls((g.n, g.c, g.h * g.w), (0, half, 0))
        return cls((g.n * g.c, g.h, g.w), (0, half, half))

    def block(self, config: Config, machine: Machine) -> Shape:
        """What a CPE has of a tile; the second axis is whole, and so is one with a halo."""
        deal = DEALS[config["deal"]]
        mesh = (machine.mesh.rows, machine.mesh.cols)
        count, middle, last = self.shape
        if not self.halo[2]:
            last = min(config["block"], -(-last // deal[2].ways(mesh)))
        share = config["block"] // (last * (middle if self.halo[2] else 1))
        return min(max(1, share), -(-count // deal[0].ways(mesh))), middle, last

    def padded(self, tile: Shape) -> Shape:
        """A tile with its margins."""
        return tuple(n + 2 * halo for n, halo in zip(tile, self.halo, strict=True))


class LrnTemplate(Template):
    """Both directions."""

    name: ClassVar[str] = "lrn"

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """Windows of not too many elements, and tiles that fit the LDM."""
        g = _geometry(op)
        if g.window > WIDEST:
            return f"a window of {g.window} elements, at most {WIDEST} are scheduled"
        if g.count == 0:
            return f"an empty image {g.shape}"
        return None if next(iter(self.space(op, machine)), None) else "no tile fits the LDM"

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """How tiles are dealt, and positions of a block."""
        within = _geometry(op).region == "within"
        deals = (WHOLE_PLANES,) if within else tuple(range(len(DEALS)))
        blocks = Knob("block", (4, 8, 16, 32, 64, 128, 256, 512, 1024))
        return ConfigSpace(
            (Knob("deal", deals), blocks),
            lambda c: _ldm_bytes(op, _View.of(op).block(c, machine)) <= machine.ldm.usable_bytes,
        )

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """Rough cycles of the copies."""
        view = _View.of(op)
        block, line = view.block(config, machine), machine.dma.transaction_bytes
        mesh = (machine.mesh.rows, machine.mesh.cols)
        ways = [along.ways(mesh) for along in DEALS[config["deal"]]]
        tiles = [-(-n // (m * w)) for n, m, w in zip(view.shape, block, ways, strict=True)]
        gap = 0 if block[1:] == view.shape[1:] else line
        moved = machine.mesh.cpes * block[0] * block[1] * (4 * block[2] + gap)
        cycles = moved / machine.dma.peak_bytes_per_s * machine.mesh.clock_hz
        return math.prod(tiles) * (cycles + machine.dma.start_cycles)

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """Images, or positions of one, are shared by the core groups; tiles of positions stream."""
        view = _View.of(op)
        mesh = (machine.mesh.rows, machine.mesh.cols)
        b = Builder("lrn_forward" if isinstance(op, LrnForward) else "lrn_backward", mesh)
        memory = {
            operand.name: b.param(operand.name, view.shape) for operand in (*op.inputs, *op.outputs)
        }
        block, deal = view.block(config, machine), DEALS[config["deal"]]
        tile = tuple(n * along.ways(mesh) for n, along in zip(block, deal, strict=True))
        count, last = view.shape[0], view.shape[2]

        def share(start: Affine, size: int) -> None:
            with b.scope():
                step = _Step(b, op, memory, deal, tile)
                if tile[2] >= last:
                    whole = (Affine(), last)
                    step.stream("n", size, tile[0], lambda n, k: ((n + start, k), whole))
                    return
                b.tiles(
                    "n",
                    size,
                    tile[0],
                    lambda n, k: step.stream(
                        "p", last, tile[2], lambda p, m: ((n + start, k), (p, m))
                    ),
                )

        b.tiles("g", count, max(1, count // machine.core_groups), share, parallel=True)
        return b.build()


def _ldm_bytes(op: Operator, block: Shape) -> int:
    """Streams twice, one tile for each result, and the padded tile; backward one more."""
    tiles = 2 * len(op.inputs) + len(op.outputs) + isinstance(op, LrnBackward)
    padded = math.prod(_View.of(op).padded(block))
    return 4 * (tiles * math.prod(block) + padded) + 32 * (tiles + 1)


class _Step:
    """The tiles of one share, and what happens to them."""

    def __init__(
        self,
        b: Builder,
        op: Operator,
        memory: dict[str, Buffer],
        deal: tuple[Along, Along, Along],
        tile: Shape,
    ) -> None:
        """Allocate; the margins of the padded tile stay zero."""
        self.b, self.op, self.memory, self.g = b, op, memory, _geometry(op)
        self.view, self.halo = _View.of(op), _View.of(op).halo
        tile = (tile[0], *self.view.shape[1:2], tile[2])
        self.streams = {o.name: b.tile(o.name, tile, deal, 2) for o in op.inputs}
        self.results = {o.name: b.tile(o.name, tile, deal) for o in op.outputs}
        self.padded = b.tile("window", self.view.padded(tile), deal)
        if isinstance(op, LrnBackward):
            self.direct = b.tile("direct", tile, deal)
        for axis, halo in enumerate(self.halo):
            for start in (0, tile[axis] + halo) if halo else ():
                spans: list[Span | int] = list(self.padded.shape)
                spans[axis] = (start, halo)
                b.apply(Zero(), box(self.padded, *spans))

    def stream(self, name: str, total: int, size: int, spans: Spans) -> None:
        """Tiles along one axis, double-buffered; `spans` gives the first and the last axis."""
        names, middle = [operand.name for operand in self.op.inputs], self.view.shape[1]

        def fetch(at: Affine, count: int, slot: Slot) -> None:
            first, last = spans(at, count)
            for name in names:
                ldm = box(self.streams[name], first[1], middle, last[1], slot=slot)
                self.b.get(ldm, box(self.memory[name], first, middle, last), Reply("in", slot))

        def compute(at: Affine, count: int, slot: Slot, _: bool) -> None:
            first, last = spans(at, count)
            sizes = first[1], middle, last[1]
            self.b.wait(Reply("in", slot), len(names))
            sources = [box(self.streams[name], *sizes, slot=slot) for name in names]
            (self._forward if isinstance(self.op, LrnForward) else self._backward)(sizes, sources)
            for name, tile in self.results.items():
                mem = box(self.memory[name], first, middle, last)
                self.b.put(box(tile, *sizes), mem, Reply("out"))
            self.b.wait(Reply("out"), len(self.results))

        self.b.pipeline(name, total, size, fetch, compute)

    def _middle(self, sizes: Shape) -> Region:
        """The padded tile without its margins."""
        return self._window(sizes, self.halo[1], self.halo[2])

    def _window(self, sizes: Shape, row: int, col: int) -> Region:
        return box(self.padded, sizes[0], (row, sizes[1]), (col, sizes[2]))

    def _shifted(self, sizes: Shape) -> Iterator[Region]:
        """The padded tile as each element of the window sees it."""
        for row in range(2 * self.halo[1] + 1):
            for col in range(2 * self.halo[2] + 1):
                yield self._window(sizes, row, col)

    def _map(self, formula: Formula, targets: list[Region], sources: list[Region]) -> None:
        code = trace(len(sources), formula)
        self.b.apply(Map(code, (ALL,) * len(sources)), *targets, *sources)

    def _forward(self, sizes: Shape, sources: list[Region]) -> None:
        g = self.g
        (src,) = sources
        self._map(lambda x: x * x, [self._middle(sizes)], [src])

        def normalise(x: Value, *squares: Value) -> tuple[Value, Value]:
            scale = g.k + g.weight * _total(squares)
            return x * power(scale, -g.beta), scale

        targets = [box(self.results[name], *sizes) for name in ("dst", "scale")]
        self._map(normalise, targets, [src, *self._shifted(sizes)])

    def _backward(self, sizes: Shape, sources: list[Region]) -> None:
        g = self.g
        src = sources[0]
        direct = box(self.direct, *sizes)

        def ratio(x: Value, scale: Value, dy: Value) -> tuple[Value, Value]:
            d = dy * power(scale, -g.beta)
            return d, d * x / scale

        def combine(x: Value, d: Value, *ratios: Value) -> Value:
            return d - (2 * g.weight * g.beta) * x * _total(ratios)

        self._map(ratio, [direct, self._middle(sizes)], sources)
        target = box(self.results["diff_src"], *sizes)
        self._map(combine, [target], [src, direct, *self._shifted(sizes)])


def _total(terms: tuple[Value, ...]) -> Value:
    return sum(terms[1:], terms[0])


_LRN = LrnTemplate()
for _op_class in (LrnForward, LrnBackward):
    TEMPLATES.setdefault(_op_class, []).append(_LRN)
