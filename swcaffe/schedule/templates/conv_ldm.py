"""Convolution by explicit GEMM whose column matrix exists in the LDM only.

Strips of image rows come by DMA, every CPE spreads its share of them into windows, and the product
reads these as its tile of B. Main memory sees each image once for each tile of output channels,
instead of a column matrix that is larger by the number of taps. The gradient to the input is the
same schedule at stride 1, with taps counted from the last.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from swcaffe.arrays import Shape
from swcaffe.ir.buffer import Along, Buffer
from swcaffe.ir.builder import Builder, Span, box, round_up
from swcaffe.ir.expr import Affine, Slot
from swcaffe.ir.intrinsics.elementwise import Broadcast
from swcaffe.ir.intrinsics.fill import ZeroOutside
from swcaffe.ir.intrinsics.im2col import Im2col
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm
from swcaffe.ir.stmt import Program, Reply
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.convolution import ConvBackwardData, ConvForward
from swcaffe.schedule.matmul import Images, MatrixView, split
from swcaffe.schedule.space import Config, ConfigSpace, Knob
from swcaffe.schedule.strips import Planes, Strip, runs, strips_for_outputs
from swcaffe.schedule.template import Template, template_for
from swcaffe.schedule.templates.conv_im2col import Parts, geometry_of

__all__ = ["ConvBackwardDataLdm", "ConvForwardLdm", "Tiles", "kernel_cycles", "knobs", "sizes_of"]

ROW, COL, NONE = Along.ROW, Along.COL, Along.NONE


@dataclass(frozen=True, slots=True)
class Tiles:
    """Shapes of the LDM tiles of C = A @ windows: m rows, images, strips of `rows`, channels."""

    machine: Machine
    planes: Planes
    m: int
    images: int
    rows: int
    channels: int
    has_bias: bool = False

    @property
    def columns(self) -> tuple[int, int]:
        """(images, positions) of a strip, padded for the kernel."""
        mesh, kernel = self.machine.mesh, self.machine.kernel
        positions = self.rows * self.planes.out[1]
        images, padded = Images(0, (0, self.images)).shape(positions, mesh.cols, kernel.tile_n)
        return images, padded

    @property
    def a(self) -> Shape:
        """Weights: (m, window), or (m, channels, taps) where channels are a memory axis apart."""
        mesh = self.machine.mesh
        m = round_up(self.m, mesh.rows * self.machine.kernel.tile_m)
        if self.planes.reverse:
            return m, round_up(self.channels, mesh.cols), self.planes.taps
        return m, round_up(self.channels * self.planes.taps, mesh.cols)

    @property
    def b(self) -> Shape:
        """Windows: (channels * taps, images, positions)."""
        return (math.prod(self.a[1:]), *self.columns)

    @property
    def c(self) -> Shape:
        """Output: (m, images, positions)."""
        return (self.a[0], *self.columns)

    @property
    def strip(self) -> Shape:
        """Image rows: (channels, images, rows, cols) of the largest strip."""
        rows = max(strip.src[1] for strip in strips_for_outputs(self.planes, self.rows))
        return self.channels, self.columns[0], rows, self.planes.size[1]

    @property
    def slots(self) -> int:
        """Two where channels are walked in several tiles."""
        return 1 if self.channels == self.planes.channels else 2

    @property
    def ldm_bytes(self) -> int:
        """Bytes on each CPE; strips are there for each row of the mesh."""
        a, b, c, strip = (math.prod(shape) for shape in (self.a, self.b, self.c, self.strip))
        mesh = self.machine.mesh
        dealt = 4 * c + (4 * self.slots + 8) * a + 12 * b
        shared = 4 * self.slots * strip // mesh.cols + 4 * self.a[0] * self.has_bias // mesh.rows
        return dealt // mesh.cpes + shared + 8 * self.machine.ldm.alignment_bytes

    def sketch(self) -> float:
        """Rough cycles of one tile of C."""
        mesh, dma = self.machine.mesh, self.machine.dma
        a, b, c, strip = (math.prod(shape) for shape in (self.a, self.b, self.c, self.strip))
        per_element = 4 * mesh.clock_hz / dma.peak_bytes_per_s
        steps = -(-self.planes.channels // self.channels)
        sizes = (c / mesh.cpes, b / mesh.cpes, b / math.prod(self.columns) / mesh.rows)
        compute = kernel_cycles(self.machine, sizes[0], sizes[2]) + 2.5 * sizes[1]
        fetch = per_element * (a + strip * mesh.rows) + dma.start_cycles
        store = per_element * c + dma.start_cycles
        return steps * max(compute, fetch) + min(compute, fetch) + store


def kernel_cycles(machine: Machine, c: float, k: float) -> float:
    """Cycles of all steps of a product, from the block of C (elements) and of k (rows of B)."""
    kernel = machine.kernel
    tiles = machine.mesh.rows * c / (kernel.tile_m * kernel.tile_n)
    return tiles * (kernel.cycles_per_k * k + kernel.tile_cycles)


def sizes_of(config: Config) -> tuple[int, int, int, int]:
    """m, images, rows, channels of the tiles."""
    return config["tile_m"], config["images"], config["rows"], config["channels"]


def knobs(machine: Machine, planes: Planes, images: int, m: int) -> tuple[Knob, ...]:
    """Images, rows of a strip, channels of a step, rows of A."""
    unit, mesh = machine.mesh.rows * machine.kernel.tile_m, machine.mesh
    counts = {min(images, mesh.cols * factor) for factor in (1, 2)}
    rows = {-(-planes.out[0] // parts) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256)}
    channels = {split(planes.channels, limit) for limit in (1, 2, 4, 8, 16, 32, 64)}
    return (
        Knob("images", tuple(sorted(counts))),
        Knob("rows", tuple(sorted(rows))),
        Knob("channels", tuple(sorted(channels))),
        Knob("tile_m", tuple(sorted({split(m, unit * factor) for factor in (1, 2, 4, 8)}))),
    )


class LdmTemplate(Template):
    """Image groups are shared by the core groups; strips, then tiles of m, are walked in each."""

    source: ClassVar[str]
    target: ClassVar[str]

    @abstractmethod
    def planes(self, op: Operator) -> Planes:
        """The convolution as the schedule sees it."""

    @abstractmethod
    def rows_of(self, parts: Parts) -> int:
        """m: output channels of a group, as the schedule sees it."""

    @abstractmethod
    def weights(self, parts: Parts, buffer: Buffer, group: Affine, channels: Span) -> MatrixView:
        """A of some channels."""

    def params(self, b: Builder, op: Operator, parts: Parts) -> dict[str, Buffer]:
        """Declare the operands: images of the source, matrices of the target."""
        g, planes, m = parts.geometry, self.planes(op), self.rows_of(parts)
        shapes = {
            self.source: (g.n, g.groups, planes.channels, *planes.size),
            self.target: (g.n, g.groups, m, planes.positions),
            "weights": (g.groups, parts.oc, *self.weight_axes(parts)),
            "bias": (g.oc,),
        }
        operands = (*op.inputs, *op.outputs)
        return {operand.name: b.param(operand.name, shapes[operand.name]) for operand in operands}

    @abstractmethod
    def weight_axes(self, parts: Parts) -> Shape:
        """Axes of the weights behind group and output channel."""

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """One or two spatial axes, and tiles that fit the LDM."""
        g = geometry_of(op)
        if len(g.in_size) not in (1, 2):
            return f"{len(g.in_size)} spatial axes, 1 or 2 are scheduled"
        if min(*g.src, *g.dst, *g.kernel) < 1:
            return f"an empty convolution: src {g.src}, dst {g.dst}"
        return None if next(iter(self.space(op, machine)), None) else "no tile fits the LDM"

    def tiles(self, op: Operator, config: Config, machine: Machine) -> Tiles:
        """Tiles of a configuration."""
        bias = isinstance(op, ConvForward) and op.has_bias
        return Tiles(machine, self.planes(op), *sizes_of(config), has_bias=bias)

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """Tiles that fit the LDM."""
        g = geometry_of(op)
        share = -(-g.n // machine.core_groups)
        m = self.rows_of(Parts(machine, g))
        return ConfigSpace(
            knobs(machine, self.planes(op), share, m),
            lambda c: self.tiles(op, c, machine).ldm_bytes <= machine.ldm.usable_bytes,
        )

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """Rough cycles of all tiles of one channel group."""
        g, tiles = geometry_of(op), self.tiles(op, config, machine)
        m = -(-self.rows_of(Parts(machine, g)) // config["tile_m"])
        strips = -(-tiles.planes.out[0] // config["rows"])
        return -(-g.n // config["images"]) * m * strips * tiles.sketch()

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """Image groups, channel groups, strips, tiles of m."""
        parts, planes = Parts(machine, geometry_of(op)), self.planes(op)
        b = Builder(self.name, (machine.mesh.rows, machine.mesh.cols))
        params = self.params(b, op, parts)
        tiles = self.tiles(op, config, machine)

        def image_group(start: Affine, count: int) -> None:
            with b.loop("group", parts.geometry.groups) as group:
                for strip, times, step in runs(strips_for_outputs(planes, config["rows"])):
                    with b.loop("y", times) as y:
                        at = (y * step[0] + strip.out[0]) * planes.out[1]
                        row = y * step[1] + strip.src[0]
                        self._strip(
                            _Step(b, parts, tiles, params, (start, count), group, strip, at, row)
                        )

        b.tiles("n", parts.geometry.n, config["images"], image_group, parallel=True)
        return b.build()

    def _strip(self, s: _Step) -> None:
        m, tile_m = self.rows_of(s.parts), s.tiles.m
        s.b.tiles("i", m, tile_m, lambda start, size: self._tile(s, (start, size)))

    def _tile(self, s: _Step, i: tuple[Affine, int]) -> None:
        """One tile of C from its first value to memory."""
        b, tiles, planes, m = s.b, s.tiles, s.tiles.planes, i[1]
        count, positions = s.images[1], s.strip.out[1] * planes.out[1]
        a_dealt = (ROW, COL, NONE)[: len(tiles.a)]
        with b.scope():
            c_tile = b.tile("C", tiles.c, (ROW, COL, NONE))
            a_tile = b.tile("A", tiles.a, a_dealt, tiles.slots)
            b_tile = b.tile("B", tiles.b, (ROW, COL, NONE))
            strip = b.tile("strip", tiles.strip, (NONE, COL, NONE, NONE), tiles.slots)
            wide_a = box(b.tile("wide_A", tiles.a, a_dealt, 1, "f64"))
            wide_b = box(b.tile("wide_B", tiles.b, (ROW, COL, NONE), 1, "f64"))
            bias = s.params.get("bias")
            if bias is not None:
                vector = b.tile("bias", (tiles.c[0],), (ROW,))
                mem = box(bias, (s.group * s.parts.oc + i[0], m))
                b.get(box(vector, m), mem, Reply("bias"), padded=True)
                b.wait(Reply("bias"))
                b.apply(Broadcast(0), box(c_tile), box(vector))

            def fetch(channel: Affine, channels: int, slot: Slot) -> None:
                view = self.weights(s.parts, s.params["weights"], s.group, (channel, channels))
                taps = planes.taps
                cols = (0, taps) if planes.reverse else (channel * taps, channels * taps)
                reply = Reply("in", slot)
                b.get(
                    view.valid(a_tile, m, cols[1], slot),
                    view.mem(i, cols),
                    reply,
                    view.axes,
                    padded=True,
                )
                channel_span, rows = (channel, channels), (s.row, s.strip.src[1])
                mem = box(s.params[self.source], s.images, (s.group, 1), channel_span, rows)
                b.get(box(strip, channels, count, rows[1], slot=slot), mem, reply, (2, 0, 3, 4))

            def compute(channel: Affine, channels: int, slot: Slot, first: bool) -> None:
                depth = channels * planes.taps
                b.wait(Reply("in", slot), 2)
                windows = box(b_tile, depth, count, positions)
                if not windows.is_whole and (first or channels != tiles.channels):
                    b.apply(ZeroOutside(), box(b_tile), windows)
                source = box(strip, channels, count, s.strip.src[1], slot=slot)
                b.apply(Im2col(planes.windows(s.strip)), windows, source)
                width = channels if planes.reverse else depth
                b.apply(
                    MeshGemm(accumulate=bias is not None or not first),
                    box(c_tile, m, count),
                    box(a_tile, m, width, slot=slot),
                    box(b_tile, depth, count),
                    wide_a,
                    wide_b,
                )

            b.pipeline("c", planes.channels, tiles.channels, fetch, compute)
            target = s.params[self.target]
            mem = box(target, s.images, (s.group, 1), i, (s.at, positions))
            b.put(box(c_tile, m, count, positions), mem, Reply("out"), (2, 0, 3))
            b.wait(Reply("out"))


@dataclass(frozen=True, slots=True)
class _Step:
    """Where the emitter stands: images, channel group, strip, its first position and image row."""

    b: Builder
    parts: Parts
    tiles: Tiles
    params: dict[str, Buffer]
    images: Span
    group: Affine
    strip: Strip
    at: Affine
    row: Affine


@template_for
class ConvForwardLdm(LdmTemplate):
    """dst (oc, n p) = weights (oc, window) @ windows of src (window, n p) + bias."""

    name: ClassVar[str] = "conv_forward_ldm"
    op_class: ClassVar[type[Operator]] = ConvForward
    source: ClassVar[str] = "src"
    target: ClassVar[str] = "dst"

    def planes(self, op: Operator) -> Planes:
        """As it is."""
        return Planes.of(geometry_of(op))

    def rows_of(self, parts: Parts) -> int:
        """Output channels."""
        return parts.oc

    def weight_axes(self, parts: Parts) -> Shape:
        """The window."""
        return (parts.planes.window,)

    def weights(self, parts: Parts, buffer: Buffer, group: Affine, channels: Span) -> MatrixView:
        """(oc, window)."""
        return MatrixView(buffer, 1, 2, fixed={0: group})


@template_for
class ConvBackwardDataLdm(LdmTemplate):
    """diff_src (ic, n p) = weights (ic, oc taps) @ reversed windows of diff_dst, at stride 1."""

    name: ClassVar[str] = "conv_backward_data_ldm"
    op_class: ClassVar[type[Operator]] = ConvBackwardData
    source: ClassVar[str] = "diff_dst"
    target: ClassVar[str] = "diff_src"

    def planes(self, op: Operator) -> Planes:
        """Reversed: from outputs to inputs."""
        g = geometry_of(op)
        return Planes.of(g).reversed(g.oc // g.groups)

    def rows_of(self, parts: Parts) -> int:
        """Input channels."""
        return parts.planes.channels

    def weight_axes(self, parts: Parts) -> Shape:
        """Input channels and taps."""
        return parts.planes.channels, parts.planes.taps

    def weights(self, parts: Parts, buffer: Buffer, group: Affine, channels: Span) -> MatrixView:
        """(ic, oc, taps): memory has them by output channel."""
        return MatrixView(buffer, 2, 3, Images(1, channels), {0: group})

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """Stride 1: others scatter, which this schedule does not."""
        g = geometry_of(op)
        if set(g.stride) != {1}:
            return f"stride {g.stride}, only 1 is a convolution of the output gradient"
        return super().refuse(op, machine)
