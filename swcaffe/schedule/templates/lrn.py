"""Response normalisation across channels: a CPE holds all channels of its positions.

The window is a sum of shifted views of one tile, which has rows of zeros before the first and
behind the last channel; positions are dealt over the mesh, so that windows need no messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
WIDEST = 15
"""Largest window: its rows are arguments of one formula, and registers are few."""
ALL = (0, 1, 2)

Formula: TypeAlias = Callable[..., Value | tuple[Value, ...]]


def _geometry(op: Operator) -> LrnGeometry:
    assert isinstance(op, LrnForward | LrnBackward), f"{op} does not normalise"
    return op.geometry


class LrnTemplate(Template):
    """Both directions."""

    name: ClassVar[str] = "lrn"

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """Windows across channels, of a size that registers can hold."""
        g = _geometry(op)
        if g.region != "across":
            return "windows within a channel are not scheduled"
        if g.size > WIDEST:
            return f"a window of {g.size} channels, at most {WIDEST} are scheduled"
        if g.count == 0:
            return f"an empty image {g.shape}"
        return None if next(iter(self.space(op, machine)), None) else "no tile fits the LDM"

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """How tiles are dealt, and positions of a block."""
        blocks = Knob("block", (4, 8, 16, 32, 64, 128, 256))
        return ConfigSpace(
            (Knob("deal", tuple(range(len(DEALS)))), blocks),
            lambda c: _ldm_bytes(op, _block(op, c, machine)) <= machine.ldm.usable_bytes,
        )

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """Rough cycles of the copies."""
        g = _geometry(op)
        images, _, positions = _block(op, config, machine)
        row = 4 * positions
        line = machine.dma.transaction_bytes
        per_byte = machine.mesh.clock_hz / machine.dma.peak_bytes_per_s
        ways = [
            along.ways((machine.mesh.rows, machine.mesh.cols)) for along in DEALS[config["deal"]]
        ]
        steps = -(-g.n // (images * ways[0])) * -(-g.h * g.w // (positions * ways[2]))
        tile = machine.mesh.cpes * images * g.c * (row + line) * per_byte
        return steps * (tile + machine.dma.start_cycles)

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """Images, or positions of one, are shared by the core groups; tiles of positions stream."""
        g = _geometry(op)
        b = Builder(
            "lrn_forward" if isinstance(op, LrnForward) else "lrn_backward",
            (machine.mesh.rows, machine.mesh.cols),
        )
        memory = {
            operand.name: b.param(operand.name, (g.n, g.c, g.h * g.w))
            for operand in (*op.inputs, *op.outputs)
        }
        block, deal = _block(op, config, machine), DEALS[config["deal"]]
        mesh = (machine.mesh.rows, machine.mesh.cols)
        images, _, positions = (n * a.ways(mesh) for n, a in zip(block, deal, strict=True))

        def share(start: Affine, count: int) -> None:
            with b.scope():
                step = _Step(b, op, memory, deal, images, positions)
                b.tiles(
                    "n",
                    count,
                    images,
                    lambda n, size: step.walk((n + start, size)),
                )

        b.tiles("g", g.n, max(1, g.n // machine.core_groups), share, parallel=True)
        return b.build()


def _block(op: Operator, config: Config, machine: Machine) -> Shape:
    """(images, channels, positions) of a CPE."""
    g, deal = _geometry(op), DEALS[config["deal"]]
    mesh = (machine.mesh.rows, machine.mesh.cols)
    positions = min(config["block"], -(-g.h * g.w // deal[2].ways(mesh)))
    images = min(max(1, config["block"] // positions), -(-g.n // deal[0].ways(mesh)))
    return images, g.c, positions


def _ldm_bytes(op: Operator, block: Shape) -> int:
    """Streams twice, one tile for each result, and the padded tile; backward one more."""
    g = _geometry(op)
    images, channels, positions = block
    tiles = 2 * len(op.inputs) + len(op.outputs) + isinstance(op, LrnBackward)
    padded = channels + 2 * (g.size // 2)
    return 4 * images * positions * (tiles * channels + padded) + 32 * (tiles + 1)


class _Step:
    """The tiles of one share, and what happens to them."""

    def __init__(
        self,
        b: Builder,
        op: Operator,
        memory: dict[str, Buffer],
        deal: tuple[Along, Along, Along],
        images: int,
        positions: int,
    ) -> None:
        """Allocate; the margins of the padded tile stay zero."""
        self.b, self.op, self.memory, self.g = b, op, memory, _geometry(op)
        self.positions, self.half = positions, self.g.size // 2
        shape = (images, self.g.c, positions)
        self.streams = {o.name: b.tile(o.name, shape, deal, 2) for o in op.inputs}
        self.results = {o.name: b.tile(o.name, shape, deal) for o in op.outputs}
        self.padded = b.tile("window", (images, self.g.c + 2 * self.half, positions), deal)
        if isinstance(op, LrnBackward):
            self.direct = b.tile("direct", shape, deal)
        if self.half:
            for start in (0, self.g.c + self.half):
                b.apply(Zero(), box(self.padded, images, (start, self.half)))

    def walk(self, images: Span) -> None:
        """Tiles of positions, double-buffered."""
        names = [operand.name for operand in self.op.inputs]

        def fetch(p: Affine, count: int, slot: Slot) -> None:
            for name in names:
                ldm = box(self.streams[name], images[1], self.g.c, count, slot=slot)
                self.b.get(ldm, self._memory(name, images, (p, count)), Reply("in", slot))

        def compute(p: Affine, count: int, slot: Slot, first: bool) -> None:
            sizes = images[1], self.g.c, count
            self.b.wait(Reply("in", slot), len(names))
            sources = [box(self.streams[name], *sizes, slot=slot) for name in names]
            (self._forward if isinstance(self.op, LrnForward) else self._backward)(sizes, sources)
            for name, tile in self.results.items():
                self.b.put(box(tile, *sizes), self._memory(name, images, (p, count)), Reply("out"))
            self.b.wait(Reply("out"), len(self.results))

        self.b.pipeline("p", self.g.h * self.g.w, self.positions, fetch, compute)

    def _memory(self, name: str, images: Span, positions: Span) -> Region:
        return box(self.memory[name], images, self.g.c, positions)

    def _shifted(self, sizes: Shape) -> Iterator[Region]:
        """The padded tile from each row of the window on; the middle one is the image itself."""
        for shift in range(2 * self.half + 1):
            yield box(self.padded, sizes[0], (shift, sizes[1]), sizes[2])

    def _map(self, formula: Formula, targets: list[Region], sources: list[Region]) -> None:
        code = trace(len(sources), formula)
        self.b.apply(Map(code, (ALL,) * len(sources)), *targets, *sources)

    def _forward(self, sizes: Shape, sources: list[Region]) -> None:
        g = self.g
        (src,) = sources
        middle = box(self.padded, sizes[0], (self.half, sizes[1]), sizes[2])
        self._map(lambda x: x * x, [middle], [src])

        def normalise(x: Value, *squares: Value) -> tuple[Value, Value]:
            scale = g.k + g.weight * _total(squares)
            return x * power(scale, -g.beta), scale

        targets = [box(self.results[name], *sizes) for name in ("dst", "scale")]
        self._map(normalise, targets, [src, *self._shifted(sizes)])

    def _backward(self, sizes: Shape, sources: list[Region]) -> None:
        g = self.g
        src = sources[0]
        middle = box(self.padded, sizes[0], (self.half, sizes[1]), sizes[2])
        direct = box(self.direct, *sizes)

        def ratio(x: Value, scale: Value, dy: Value) -> tuple[Value, Value]:
            d = dy * power(scale, -g.beta)
            return d, d * x / scale

        def combine(x: Value, d: Value, *ratios: Value) -> Value:
            return d - (2 * g.weight * g.beta) * x * _total(ratios)

        self._map(ratio, [direct, middle], sources)
        target = box(self.results["diff_src"], *sizes)
        self._map(combine, [target], [src, direct, *self._shifted(sizes)])


def _total(terms: tuple[Value, ...]) -> Value:
    return sum(terms[1:], terms[0])


_LRN = LrnTemplate()
for _op_class in (LrnForward, LrnBackward):
    TEMPLATES.setdefault(_op_class, []).append(_LRN)
