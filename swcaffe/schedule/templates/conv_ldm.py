"""Convolution by explicit GEMM whose column matrix exists in the LDM only.

Strips of image rows come by DMA, every CPE spreads its share of them into windows, and the product
reads these as its tile of B. Main memory sees each image once for each tile of output channels,
instead of a column matrix that is larger by the number of taps. The gradient to the input is the
same schedule at stride 1, with taps counted from the last.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from swcaffe.arrays import Shape
from swcaffe.ir.buffer import Along, Buffer
from swcaffe.ir.builder import Builder, Span, box
from swcaffe.ir.expr import Affine, Slot
from swcaffe.ir.intrinsics.elementwise import Broadcast
from swcaffe.ir.intrinsics.fill import ZeroOutside
from swcaffe.ir.intrinsics.im2col import Im2col
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm
from swcaffe.ir.stmt import Program, Reply
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.convolution import ConvBackwardData, ConvForward
from swcaffe.schedule.ldm_tiles import Tiles, knobs, sizes_of
from swcaffe.schedule.matmul import Images, MatrixView
from swcaffe.schedule.space import Config, ConfigSpace
from swcaffe.schedule.strips import Planes, Strip, runs, strips_for_outputs
from swcaffe.schedule.template import Template, template_for
from swcaffe.schedule.templates.conv_im2col import Parts, geometry_of

__all__ = ["ConvBackwardDataLdm", "ConvForwardLdm", "LdmTemplate"]

ROW, COL, NONE = Along.ROW, Along.COL, Along.NONE


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
        tiles, m = self.tiles(op, config, machine), self.rows_of(parts)

        def image_group(start: Affine, count: int) -> None:
            with b.loop("group", parts.geometry.groups) as group:
                for strip, times, pace in runs(strips_for_outputs(planes, config["rows"])):
                    with b.loop("y", times) as y:
                        at = (y * pace[0] + strip.out[0]) * planes.out[1]
                        row, images = y * pace[1] + strip.src[0], (start, count)
                        step = _Step(b, parts, tiles, params, images, group, strip, at, row)
                        b.tiles("i", m, tiles.m, lambda *i, step=step: self._tile(step, i))

        b.tiles("n", parts.geometry.n, config["images"], image_group, parallel=True)
        return b.build()

    def _tile(self, s: _Step, i: tuple[Affine, int]) -> None:
        """One tile of C from its first value to memory."""
        b, tiles, m = s.b, s.tiles, i[1]
        a_dealt = (ROW, COL, NONE)[: len(tiles.a)]
        with b.scope():
            c_tile = b.tile("C", tiles.c, (ROW, COL, NONE))
            t = _LdmTiles(
                c_tile,
                b.tile("A", tiles.a, a_dealt, tiles.slots),
                b.tile("B", tiles.b, (ROW, COL, NONE)),
                b.tile("strip", tiles.strip, (NONE, COL, NONE, NONE), tiles.slots),
                b.tile("wide_A", tiles.a, a_dealt, 1, "f64"),
                b.tile("wide_B", tiles.b, (ROW, COL, NONE), 1, "f64"),
            )
            bias = s.params.get("bias")
            if bias is not None:
                vector = b.tile("bias", (tiles.c[0],), (ROW,))
                mem = box(bias, (s.group * s.parts.oc + i[0], m))
                b.get(box(vector, m), mem, Reply("bias"), padded=True)
                b.wait(Reply("bias"))
                b.apply(Broadcast(0), box(c_tile), box(vector))
            b.pipeline(
                "c",
                tiles.planes.channels,
                tiles.channels,
                lambda channel, count, slot: self._fetch(s, t, i, (channel, count), slot),
                lambda _, count, slot, first: _multiply(s, t, m, count, slot, first),
            )
            mem = box(s.params[self.target], s.images, (s.group, 1), i, (s.at, s.positions))
            valid = box(c_tile, m, s.images[1], s.positions)
            b.put(valid, mem, Reply("out"), (2, 0, 3))
            b.wait(Reply("out"))

    def _fetch(
        self, s: _Step, t: _LdmTiles, i: tuple[Affine, int], c: tuple[Affine, int], slot: Slot
    ) -> None:
        """Start the copies of A and of the strip for channels `c`."""
        planes, (channel, channels) = s.tiles.planes, c
        view = self.weights(s.parts, s.params["weights"], s.group, c)
        cols: tuple[Affine | int, int] = (channel * planes.taps, channels * planes.taps)
        if planes.reverse:  # channels are an axis of their own
            cols = (0, planes.taps)
        a_valid = view.valid(t.a, i[1], cols[1], slot)
        s.b.get(a_valid, view.mem(i, cols), Reply("in", slot), view.axes, padded=True)
        rows = s.strip.src[1]
        mem = box(s.params[self.source], s.images, (s.group, 1), c, (s.row, rows))
        valid = box(t.strip, channels, s.images[1], rows, slot=slot)
        s.b.get(valid, mem, Reply("in", slot), (2, 0, 3, 4))


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

    @property
    def positions(self) -> int:
        """Outputs of each image in the strip."""
        return self.strip.out[1] * self.tiles.planes.out[1]


@dataclass(frozen=True, slots=True)
class _LdmTiles:
    """The tiles of a step."""

    c: Buffer
    a: Buffer
    b: Buffer
    strip: Buffer
    wide_a: Buffer
    wide_b: Buffer


def _multiply(s: _Step, t: _LdmTiles, m: int, channels: int, slot: Slot, first: bool) -> None:
    """Await the copies, spread the strip into windows, and add the product to C."""
    b, planes, count = s.b, s.tiles.planes, s.images[1]
    depth = channels * planes.taps
    b.wait(Reply("in", slot), 2)
    windows = box(t.b, depth, count, s.positions)
    if not windows.is_whole and (first or channels != s.tiles.channels):
        b.apply(ZeroOutside(), box(t.b), windows)
    source = box(t.strip, channels, count, s.strip.src[1], slot=slot)
    b.apply(Im2col(planes.windows(s.strip)), windows, source)
    b.apply(
        MeshGemm(accumulate="bias" in s.params or not first),
        box(t.c, m, count),
        box(t.a, m, channels if planes.reverse else depth, slot=slot),
        box(t.b, depth, count),
        box(t.wide_a),
        box(t.wide_b),
    )


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
