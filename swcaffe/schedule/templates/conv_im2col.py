"""Convolution by explicit GEMM: im2col and col2im by DMA rows in the LDM, then the blocked product.

Images are taken in groups, so that a group's column matrix stays in cache and its positions fill
the long axis of the product. The column matrix (window, images, positions) is main memory scratch
of each core group. Channel groups are products of their own [Fang 2019, section 5.1; swCaffe].
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, cast

from swcaffe.ir.buffer import Buffer
from swcaffe.ir.builder import Builder, Span
from swcaffe.ir.expr import ZERO, Affine
from swcaffe.ir.stmt import Program
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.schedule.columns import Columns
from swcaffe.schedule.matmul import Images, MatrixView, Product, ldm_bytes, sketch, split
from swcaffe.schedule.space import Config, ConfigSpace, Knob
from swcaffe.schedule.strips import Planes
from swcaffe.schedule.template import Template, template_for

__all__ = [
    "ConvBackwardDataIm2col",
    "ConvForwardIm2col",
    "ConvTemplate",
    "ImageGroupTemplate",
    "Parts",
    "geometry_of",
]

IMAGES = (8, 16, 32)
"""Images that share a column matrix."""
LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
"""Tile lengths tried, before they are made equal."""
DEPTHS = (4, 8, 16, 32, 64, 128, 256, 512)
"""Tile depths tried."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What the three directions share: sizes, buffers' shapes, and the parameters of a product."""

    machine: Machine
    geometry: ConvGeometry

    @property
    def planes(self) -> Planes:
        """The spatial part."""
        return Planes.of(self.geometry)

    @property
    def columns(self) -> Columns:
        """Moves to and from the column matrix."""
        return Columns(self.machine, self.planes)

    @property
    def oc(self) -> int:
        """Output channels of a group."""
        return self.geometry.oc // self.geometry.groups

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes that operands have in a program: the group is an axis of its own."""
        g, p = self.geometry, self.planes
        images = (g.n, g.groups, p.channels, *p.size)
        outputs = (g.n, g.groups, self.oc, p.positions)
        weights = (g.groups, self.oc, p.window)
        return {
            "src": images,
            "diff_src": images,
            "dst": outputs,
            "diff_dst": outputs,
            "weights": weights,
            "diff_weights": weights,
            "bias": (g.oc,),
            "diff_bias": (g.oc,),
        }

    def params(self, b: Builder, op: Operator) -> dict[str, Buffer]:
        """Declare the operands."""
        operands = (*op.inputs, *op.outputs)
        return {
            operand.name: b.param(operand.name, self.shapes[operand.name]) for operand in operands
        }

    def images(self, axis: int, span: Span) -> Images:
        """Images of a product: dealt over the mesh when there are enough of them."""
        return Images(axis, span, dealt=span[1] >= self.machine.mesh.cols)

    def outputs(self, buffer: Buffer, images: Span, group: Affine) -> MatrixView:
        """(channels, images, positions) of dst or diff_dst."""
        return MatrixView(buffer, 2, 3, self.images(0, images), {1: group})

    def matrix(self, columns: Buffer, count: int) -> MatrixView:
        """(window, images, positions) of the column matrix."""
        return MatrixView(columns, 0, 2, self.images(1, (0, count)))

    def scratch(self, b: Builder, count: int) -> Buffer:
        """The column matrix of `count` images."""
        return b.scratch("col", (self.planes.window, count, self.planes.positions))


class ConvTemplate(Template):
    """A product for each group of images, over a column matrix; knobs images, tile_m, _n, _k."""

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """One or two spatial axes, and a strip of one row that fits the LDM."""
        g = geometry_of(op)
        if len(g.in_size) not in (1, 2):
            return f"{len(g.in_size)} spatial axes, 1 or 2 are scheduled"
        if min(*g.src, *g.dst, *g.kernel) < 1:
            return f"an empty convolution: src {g.src}, dst {g.dst}"
        columns, images = Columns(machine, Planes.of(g)), min(g.n, machine.mesh.cols)
        if columns.tiling(images, by_image_rows=isinstance(op, ConvBackwardData)) is None:
            return f"one row of windows is over {machine.ldm.usable_bytes} B of LDM"
        return None if next(iter(self.space(op, machine)), None) else "no tile fits the LDM"

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """Equal tiles that fit the LDM."""
        g = geometry_of(op)
        parts = Parts(machine, g)
        share = -(-g.n // machine.core_groups)
        by_rows = isinstance(op, ConvBackwardData)
        counts = {split(share, limit) for limit in IMAGES} | {min(g.n, machine.mesh.cols)}
        images = {n for n in counts if parts.columns.tiling(n, by_image_rows=by_rows)}
        m, n, k = self.product_sizes(parts)
        unit = machine.mesh.rows * machine.kernel.tile_m
        knobs = (
            Knob("images", tuple(sorted(images))),
            Knob("tile_m", tuple(sorted({split(m, unit * factor) for factor in (1, 2, 4, 8, 16)}))),
            Knob("tile_n", tuple(sorted({split(n, limit) for limit in LENGTHS}))),
            Knob("tile_k", tuple(sorted({split(k, limit) for limit in DEPTHS}))),
        )

        def fits(config: Config) -> bool:
            product = self._sample(op, config, machine)
            return ldm_bytes(product, *_tiles(config)) <= machine.ldm.usable_bytes

        return ConfigSpace(knobs, fits)

    def _sample(self, op: Operator, config: Config, machine: Machine) -> Product:
        """The product of the first image group and channel group."""
        return _first_product(self, op, config["images"], machine)

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """That of the product, for all image groups; image moves are much the same for all."""
        groups = -(-geometry_of(op).n // config["images"])
        return groups * sketch(self._sample(op, config, machine), *_tiles(config))

    @abstractmethod
    def product_sizes(self, parts: Parts) -> tuple[int, int, int]:
        """m, n, k of the product of one image group, n and k without images."""

    @abstractmethod
    def product(
        self, parts: Parts, params: dict[str, Buffer], col: Buffer, images: Span, group: Affine
    ) -> Product:
        """The product of one image group and one channel group."""


class ImageGroupTemplate(ConvTemplate):
    """Image groups are independent, and shared by the core groups."""

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """A parallel loop over image groups, in it one over channel groups."""
        parts = Parts(machine, geometry_of(op))
        b = Builder(self.name, (machine.mesh.rows, machine.mesh.cols))
        params = parts.params(b, op)

        def image_group(start: Affine, count: int) -> None:
            with b.scope():
                col = parts.scratch(b, count)
                with b.loop("group", parts.geometry.groups) as group:
                    self.group(b, parts, params, col, (start, count), group, config)

        b.tiles("n", parts.geometry.n, config["images"], image_group, parallel=True)
        return b.build()

    @abstractmethod
    def group(
        self,
        b: Builder,
        parts: Parts,
        params: dict[str, Buffer],
        col: Buffer,
        images: Span,
        group: Affine,
        config: Config,
    ) -> None:
        """Write what is done for one image group and one channel group."""


def geometry_of(op: Operator) -> ConvGeometry:
    """The sizes of any of the three directions."""
    return cast("ConvForward | ConvBackwardData | ConvBackwardWeights", op).geometry


def _tiles(config: Config) -> tuple[int, int, int]:
    return config["tile_m"], config["tile_n"], config["tile_k"]


@lru_cache(maxsize=64)
def _first_product(template: ConvTemplate, op: Operator, images: int, machine: Machine) -> Product:
    """The product of the first image group and channel group, whatever the tiles."""
    parts = Parts(machine, geometry_of(op))
    b = Builder(template.name, (machine.mesh.rows, machine.mesh.cols))
    col = parts.scratch(b, images)
    return template.product(parts, parts.params(b, op), col, (0, images), ZERO)


@template_for
class ConvForwardIm2col(ImageGroupTemplate):
    """dst (oc, n p) = weights (oc, window) @ columns (window, n p) + bias."""

    name: ClassVar[str] = "conv_forward_im2col"
    op_class: ClassVar[type[Operator]] = ConvForward

    def product_sizes(self, parts: Parts) -> tuple[int, int, int]:
        """Channels, positions, window."""
        return parts.oc, parts.planes.positions, parts.planes.window

    def product(
        self, parts: Parts, params: dict[str, Buffer], col: Buffer, images: Span, group: Affine
    ) -> Product:
        """Weights by columns."""
        return Product(
            parts.machine,
            MatrixView(params["weights"], 1, 2, fixed={0: group}),
            parts.matrix(col, images[1]),
            parts.outputs(params["dst"], images, group),
            *self.product_sizes(parts),
            bias=params.get("bias"),
            bias_start=group * parts.oc,
        )

    def group(
        self,
        b: Builder,
        parts: Parts,
        params: dict[str, Buffer],
        col: Buffer,
        images: Span,
        group: Affine,
        config: Config,
    ) -> None:
        """im2col, then the product."""
        parts.columns.write(b, params["src"], images, group, col)
        self.product(parts, params, col, images, group).emit(b, *_tiles(config))


@template_for
class ConvBackwardDataIm2col(ImageGroupTemplate):
    """columns (window, n p) = weights.T @ diff_dst (oc, n p), summed back into diff_src."""

    name: ClassVar[str] = "conv_backward_data_im2col"
    op_class: ClassVar[type[Operator]] = ConvBackwardData

    def product_sizes(self, parts: Parts) -> tuple[int, int, int]:
        """Window, positions, channels."""
        return parts.planes.window, parts.planes.positions, parts.oc

    def product(
        self, parts: Parts, params: dict[str, Buffer], col: Buffer, images: Span, group: Affine
    ) -> Product:
        """Transposed weights by output gradients."""
        return Product(
            parts.machine,
            MatrixView(params["weights"], 1, 2, fixed={0: group}),
            parts.outputs(params["diff_dst"], images, group),
            parts.matrix(col, images[1]),
            *self.product_sizes(parts),
            trans_a=True,
        )

    def group(
        self,
        b: Builder,
        parts: Parts,
        params: dict[str, Buffer],
        col: Buffer,
        images: Span,
        group: Affine,
        config: Config,
    ) -> None:
        """The product, then col2im."""
        self.product(parts, params, col, images, group).emit(b, *_tiles(config))
        parts.columns.sum(b, col, params["diff_src"], images, group)
