"""Weight gradients whose column matrix exists in the LDM only; sums over images stay there too."""

from __future__ import annotations

from typing import ClassVar

from swcaffe.ir.buffer import Along, Buffer
from swcaffe.ir.builder import Builder, Span, box
from swcaffe.ir.expr import Affine, Slot
from swcaffe.ir.intrinsics.fill import Zero, ZeroOutside
from swcaffe.ir.intrinsics.im2col import Im2col
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm
from swcaffe.ir.stmt import Reply
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.convolution import ConvBackwardWeights
from swcaffe.schedule.ldm_tiles import WeightTiles, knobs, sizes_of
from swcaffe.schedule.space import Config, ConfigSpace
from swcaffe.schedule.strips import Planes, Strip, runs, strips_for_outputs
from swcaffe.schedule.template import template_for
from swcaffe.schedule.templates.conv_im2col import Parts, geometry_of
from swcaffe.schedule.templates.conv_weights import ConvBackwardWeightsIm2col

__all__ = ["ConvBackwardWeightsLdm"]

ROW, COL, NONE = Along.ROW, Along.COL, Along.NONE


@template_for
class ConvBackwardWeightsLdm(ConvBackwardWeightsIm2col):
    """Tiles of the gradient are complete for a share of the images before they leave the LDM."""

    name: ClassVar[str] = "conv_backward_weights_ldm"
    op_class: ClassVar[type[Operator]] = ConvBackwardWeights

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """One or two spatial axes, and tiles that fit the LDM."""
        g = geometry_of(op)
        if len(g.in_size) not in (1, 2):
            return f"{len(g.in_size)} spatial axes, 1 or 2 are scheduled"
        if min(*g.src, *g.dst, *g.kernel) < 1:
            return f"an empty convolution: src {g.src}, dst {g.dst}"
        return None if next(iter(self.space(op, machine)), None) else "no tile fits the LDM"

    def tiles(self, op: Operator, config: Config, machine: Machine) -> WeightTiles:
        """Tiles of a configuration."""
        return WeightTiles(machine, Planes.of(geometry_of(op)), *sizes_of(config))

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """Tiles that fit the LDM."""
        g = geometry_of(op)
        share = g.n // self.shares(op, machine)
        return ConfigSpace(
            knobs(machine, Planes.of(g), share, g.oc // g.groups),
            lambda c: self.tiles(op, c, machine).ldm_bytes <= machine.ldm.usable_bytes,
        )

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """Rough cycles of all steps of one channel group."""
        g, tiles = geometry_of(op), self.tiles(op, config, machine)
        planes = tiles.planes
        share = g.n // self.shares(op, machine)
        steps = -(-share // config["images"]) * -(-planes.out[0] // config["rows"])
        tile_count = -(-planes.channels // tiles.channels) * -(-g.oc // g.groups // tiles.m)
        return self.shares(op, machine) * steps * tile_count * tiles.sketch()

    def emit_weights(
        self,
        b: Builder,
        parts: Parts,
        buffers: dict[str, Buffer],
        images: Span,
        share: Affine,
        config: Config,
    ) -> None:
        """All tiles of the gradient of one share, one after the other."""
        tiles = WeightTiles(parts.machine, parts.planes, *sizes_of(config))

        def tile(group: Affine, i: tuple[Affine, int], j: tuple[Affine, int]) -> None:
            with b.scope():
                _Emitter(b, parts, tiles, buffers, images, share, group, i, j).emit()

        with b.loop("group", parts.geometry.groups) as group:
            b.tiles(
                "i",
                parts.oc,
                tiles.m,
                lambda i, m: b.tiles(
                    "c",
                    parts.planes.channels,
                    tiles.channels,
                    lambda j, channels: tile(group, (i, m), (j, channels)),
                ),
            )


class _Emitter:
    """Writes one tile of the gradient: rows i, channels j."""

    def __init__(
        self,
        b: Builder,
        parts: Parts,
        tiles: WeightTiles,
        buffers: dict[str, Buffer],
        images: Span,
        share: Affine,
        group: Affine,
        i: tuple[Affine, int],
        j: tuple[Affine, int],
    ) -> None:
        self.b, self.parts, self.tiles, self.buffers = b, parts, tiles, buffers
        self.images, self.share, self.group, self.i, self.j = images, share, group, i, j
        self.c_tile = b.tile("C", tiles.c, (ROW, COL))
        self.a_tile = b.tile("A", tiles.a, (ROW, COL, NONE), 2)
        self.b_tile = b.tile("B", tiles.b, (COL, ROW, NONE))
        self.strip_tile = b.tile("strip", tiles.strip, (NONE, ROW, NONE, NONE), 2)
        self.wide = (
            box(b.tile("wide_A", tiles.a, (ROW, COL, NONE), 1, "f64")),
            box(b.tile("wide_B", tiles.b, (COL, ROW, NONE), 1, "f64")),
        )

    def emit(self) -> None:
        """Zero, all strips of all images, then to memory."""
        b, planes, n = self.b, self.tiles.planes, self.j[1] * self.tiles.planes.taps
        b.apply(Zero(), box(self.c_tile))
        for strip, times, step in runs(strips_for_outputs(planes, self.tiles.rows)):
            with b.loop("y", times) as y:
                at = (y * step[0] + strip.out[0]) * planes.out[1]
                self._strip(strip, at, y * step[1] + strip.src[0])
        valid = box(self.c_tile, self.i[1], n)
        cols = self.j[0] * planes.taps, n
        mem = box(self.buffers["diff_weights"], (self.share, 1), (self.group, 1), self.i, cols)
        b.put(valid, mem, Reply("out"), (2, 3))
        b.wait(Reply("out"))

    def _strip(self, strip: Strip, at: Affine, row: Affine) -> None:
        """The images of the share, double-buffered."""
        b, planes = self.b, self.tiles.planes
        positions, rows = strip.out[1] * planes.out[1], strip.src[1]
        m, (channel, channels) = self.i[1], self.j

        def fetch(first: Affine, count: int, slot: Slot) -> None:
            span, reply = (first + self.images[0], count), Reply("in", slot)
            diff = box(self.buffers["diff_dst"], span, (self.group, 1), self.i, (at, positions))
            valid = box(self.a_tile, m, count, positions, slot=slot)
            b.get(valid, diff, reply, (2, 0, 3), padded=True)
            src = box(self.buffers["src"], span, (self.group, 1), (channel, channels), (row, rows))
            b.get(box(self.strip_tile, channels, count, rows, slot=slot), src, reply, (2, 0, 3, 4))

        def compute(_: Affine, count: int, slot: Slot, first: bool) -> None:
            b.wait(Reply("in", slot), 2)
            windows = box(self.b_tile, channels * planes.taps, count, positions)
            if not windows.is_whole and (first or count != self.tiles.images):
                b.apply(ZeroOutside(), box(self.b_tile), windows)
            source = box(self.strip_tile, channels, count, rows, slot=slot)
            b.apply(Im2col(planes.windows(strip)), windows, source)
            whole = positions == self.tiles.columns[1]
            depth = (count,) if whole else (self.tiles.columns[0],)
            b.apply(
                MeshGemm(trans_b=True),
                box(self.c_tile, m, channels * planes.taps),
                box(self.a_tile, m, *depth, slot=slot),
                box(self.b_tile, channels * planes.taps, *depth),
                *self.wide,
            )

        b.pipeline("s", self.images[1], self.tiles.images, fetch, compute)
