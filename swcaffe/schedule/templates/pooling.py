"""Pooling: planes are dealt over the mesh and stream through the LDMs in strips of rows.

Forward, a strip is some output rows and the image rows that their windows touch; backward, some
image rows and the outputs whose windows touch them, so that every gradient is complete when it is
stored. Planes that fit whole are one strip and read without a gap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, TypeAlias

from swcaffe.arrays import Shape
from swcaffe.ir.buffer import Along, Buffer, DType
from swcaffe.ir.builder import Builder, Span, box
from swcaffe.ir.expr import Affine, Slot
from swcaffe.ir.intrinsic import Intrinsic
from swcaffe.ir.intrinsics.pooling import (
    AvePool,
    AvePoolGradient,
    MaxPool,
    MaxPoolGradient,
    PoolStrip,
)
from swcaffe.ir.stmt import Program, Reply
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
    PoolGeometry,
)
from swcaffe.schedule.space import Config, ConfigSpace, Knob
from swcaffe.schedule.strips import Planes, Strip, strips_for_images, strips_for_outputs
from swcaffe.schedule.template import TEMPLATES, Template

__all__ = ["PoolTemplate"]

PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64)
"""Strips that a plane may be cut into."""

PoolOperator: TypeAlias = MaxPoolForward | MaxPoolBackward | AvePoolForward | AvePoolBackward

INTRINSICS: dict[type[Operator], Callable[[PoolStrip], Intrinsic]] = {
    MaxPoolForward: MaxPool,
    MaxPoolBackward: MaxPoolGradient,
    AvePoolForward: AvePool,
    AvePoolBackward: AvePoolGradient,
}


def _geometry(op: Operator) -> PoolGeometry:
    assert isinstance(op, PoolOperator), f"{op} does not pool"
    return op.geometry


@lru_cache(maxsize=256)
def _strips(op: Operator, rows: int) -> tuple[Strip, ...]:
    """Strips of `rows` output rows, or backward of image rows."""
    g = _geometry(op)
    planes = Planes(g.c, g.in_size, g.out_size, g.kernel, g.stride, g.pad, (1, 1))
    forward = isinstance(op, MaxPoolForward | AvePoolForward)
    return tuple((strips_for_outputs if forward else strips_for_images)(planes, rows))


class PoolTemplate(Template):
    """Maximum and mean, in both directions."""

    name: ClassVar[str] = "pooling"

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """Something to pool, and strips that fit the LDM."""
        g = _geometry(op)
        if min(*g.src, *g.dst) < 1:
            return f"an empty pooling: src {g.src}, dst {g.dst}"
        return None if next(iter(self.space(op, machine)), None) else "no strip fits the LDM"

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """Rows of a strip, planes of a block: few strips and many planes first."""
        g = _geometry(op)
        forward = isinstance(op, MaxPoolForward | AvePoolForward)
        whole = (g.out_size if forward else g.in_size)[0]
        rows = tuple(sorted({-(-whole // parts) for parts in PARTS}, reverse=True))
        most = -(-g.n * g.c // machine.mesh.cpes)
        planes = tuple(n for n in (16, 8, 4, 2, 1) if n <= max(1, most))
        return ConfigSpace(
            (Knob("rows", rows), Knob("planes", planes)),
            lambda c: _ldm_bytes(op, c) <= machine.ldm.usable_bytes,
        )

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """Rough cycles of the copies: rows that strips share are read again."""
        g, strips = _geometry(op), _strips(op, config["rows"])
        moved = sum(strip.src[1] * g.in_size[1] + strip.out[1] * g.out_size[1] for strip in strips)
        tiles = -(-g.n * g.c // (config["planes"] * machine.mesh.cpes))
        line = machine.dma.transaction_bytes
        seconds = len(strips) * line + 4 * moved
        cycles = seconds * g.n * g.c / machine.dma.peak_bytes_per_s * machine.mesh.clock_hz
        return cycles + tiles * len(strips) * machine.dma.start_cycles

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """Shares of planes for the core groups; in each strip by strip, planes double-buffered."""
        g = _geometry(op)
        b = Builder(self.name, (machine.mesh.rows, machine.mesh.cols))
        planes, size = g.n * g.c, config["planes"] * machine.mesh.cpes
        memory = {
            operand.name: b.param(operand.name, (planes, *operand.shape[2:]), _dtype(operand.dtype))
            for operand in (*op.inputs, *op.outputs)
        }
        share = max(1, planes // machine.core_groups)

        def strips(start: Affine, count: int) -> None:
            for strip in _strips(op, config["rows"]):
                with b.scope():
                    step = _Step(b, op, memory, strip, size, (start, count))
                    b.pipeline("p", count, size, step.fetch, step.compute)

        b.tiles("g", planes, share, strips, parallel=True)
        return b.build()


def _dtype(name: str) -> DType:
    return "i32" if name == "int32" else "f32"


def _shape(op: Operator, name: str, strip: Strip) -> tuple[Span, int]:
    """Rows and width of an operand's part of a strip."""
    g = _geometry(op)
    if name in ("src", "diff_src"):
        return strip.src, g.in_size[1]
    return strip.out, g.out_size[1]


def _ldm_bytes(op: Operator, config: Config) -> int:
    """Bytes on each CPE: inputs twice, for double buffering."""
    total = 0
    for operands, slots in ((op.inputs, 2), (op.outputs, 1)):
        for operand in operands:
            most = 0
            for strip in _strips(op, config["rows"]):
                (_, rows), cols = _shape(op, operand.name, strip)
                most = max(most, 4 * config["planes"] * rows * cols + 32)
            total += slots * most
    return total


@dataclass(slots=True)
class _Step:
    """One strip of one share of planes."""

    b: Builder
    op: Operator
    memory: dict[str, Buffer]
    strip: Strip
    size: int
    planes: Span
    tiles: dict[str, Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Allocate the tiles."""
        names = [operand.name for operand in self.op.inputs]
        slots = 2 if self.planes[1] > self.size else 1
        for name, memory in self.memory.items():
            (_, rows), cols = _shape(self.op, name, self.strip)
            shape: Shape = (self.size, rows, cols)
            deal = (Along.MESH, Along.NONE, Along.NONE)
            count = slots if name in names else 1
            self.tiles[name] = self.b.tile(name, shape, deal, count, memory.dtype)

    def _memory(self, name: str, at: Affine, count: int) -> tuple[Span, Span]:
        rows, _ = _shape(self.op, name, self.strip)
        return (at + self.planes[0], count), rows

    def fetch(self, at: Affine, count: int, slot: Slot) -> None:
        """Start the copies of the inputs."""
        for operand in self.op.inputs:
            name = operand.name
            mem = box(self.memory[name], *self._memory(name, at, count))
            self.b.get(box(self.tiles[name], count, slot=slot), mem, Reply("in", slot))

    def compute(self, at: Affine, count: int, slot: Slot, first: bool) -> None:
        """Pool and store."""
        b, inputs, outputs = self.b, self.op.inputs, self.op.outputs
        b.wait(Reply("in", slot), len(inputs))
        results = [box(self.tiles[operand.name], count) for operand in outputs]
        sources = [box(self.tiles[operand.name], count, slot=slot) for operand in inputs]
        b.apply(INTRINSICS[type(self.op)](self._windows()), *results, *sources)
        for operand, result in zip(outputs, results, strict=True):
            name = operand.name
            b.put(result, box(self.memory[name], *self._memory(name, at, count)), Reply("out"))
        b.wait(Reply("out"), len(outputs))

    def _windows(self) -> PoolStrip:
        g, strip = _geometry(self.op), self.strip
        shift = (strip.shift, -g.pad[1])
        return PoolStrip(g.kernel, g.stride, g.pad, g.in_size, shift, strip.src[0])


_POOLING = PoolTemplate()
for _op_class in INTRINSICS:
    TEMPLATES.setdefault(_op_class, []).append(_POOLING)
