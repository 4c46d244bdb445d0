"""Weight gradients by explicit GEMM: each core group sums its share of the images, then all add up.

The number of shares is the machine's, never the number of threads, so sums always run in one order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, cast

from swcaffe.ir.buffer import Along, Buffer, Region
from swcaffe.ir.builder import Builder, Span, box, round_up
from swcaffe.ir.expr import Affine, Slot
from swcaffe.ir.intrinsics.elementwise import Add, RowSum
from swcaffe.ir.intrinsics.fill import Zero
from swcaffe.ir.stmt import Program, Reply
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.convolution import ConvBackwardWeights
from swcaffe.schedule.matmul import MatrixView, Product, split
from swcaffe.schedule.space import Config
from swcaffe.schedule.template import template_for
from swcaffe.schedule.templates.conv_im2col import ConvTemplate, Parts, geometry_of

__all__ = ["ConvBackwardWeightsIm2col"]


@template_for
class ConvBackwardWeightsIm2col(ConvTemplate):
    """diff_weights (oc, window) += diff_dst (oc, n p) @ columns.T; diff_bias the row sums."""

    name: ClassVar[str] = "conv_backward_weights_im2col"
    op_class: ClassVar[type[Operator]] = ConvBackwardWeights

    def product_sizes(self, parts: Parts) -> tuple[int, int, int]:
        """Channels, window, positions."""
        return parts.oc, parts.planes.window, parts.planes.positions

    def product(
        self, parts: Parts, params: dict[str, Buffer], col: Buffer, images: Span, group: Affine
    ) -> Product:
        """Output gradients by transposed columns."""
        return Product(
            parts.machine,
            parts.outputs(params["diff_dst"], images, group),
            parts.matrix(col, images[1]),
            MatrixView(params["diff_weights"], 1, 2, fixed={0: group}),
            *self.product_sizes(parts),
            trans_b=True,
        )

    def shares(self, op: Operator, machine: Machine) -> int:
        """Core groups that take an equal share of the images."""
        n = geometry_of(op).n
        return next(count for count in range(machine.core_groups, 0, -1) if n % count == 0)

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """Shares in parallel into scratch, then their sum."""
        conv = cast(ConvBackwardWeights, op)
        b = Builder(self.name, (machine.mesh.rows, machine.mesh.cols))
        parts = Parts(machine, conv.geometry)
        params = parts.params(b, op)
        n, shares = conv.geometry.n, self.shares(op, machine)
        outputs = [operand.name for operand in op.outputs]
        partial: dict[str, Buffer] = {
            name: b.scratch(f"partial_{name}", (shares, *params[name].shape)) for name in outputs
        }
        with b.loop("share", shares, parallel=True) as share:
            images = share * (n // shares), n // shares
            self.emit_weights(b, parts, {**params, **partial}, images, share, config)
            if "diff_bias" in partial:
                self._bias(b, parts, params["diff_dst"], partial["diff_bias"], images, share)
        for name in outputs:
            _add_up(b, parts, partial[name], params[name], conv.accumulate)
        return b.build()

    def emit_weights(
        self,
        b: Builder,
        parts: Parts,
        buffers: dict[str, Buffer],
        images: Span,
        share: Affine,
        config: Config,
    ) -> None:
        """One share: the first image group overwrites the partial sum, the others add to it."""

        def image_group(start: Affine, count: int, accumulate: bool) -> None:
            with b.scope():
                col, span = parts.scratch(b, count), (start + images[0], count)
                with b.loop("group", parts.geometry.groups) as group:
                    parts.columns.write(b, buffers["src"], span, group, col)
                    product = self.product(parts, buffers, col, span, group)
                    c = MatrixView(buffers["diff_weights"], 2, 3, fixed={0: share, 1: group})
                    product = replace(product, c=c, accumulate=accumulate)
                    product.emit(b, config["tile_m"], config["tile_n"], config["tile_k"])

        first = min(config["images"], images[1])
        image_group(Affine(), first, False)
        b.tiles(
            "n",
            images[1] - first,
            config["images"],
            lambda start, count: image_group(start + first, count, True),
        )

    def _bias(
        self,
        b: Builder,
        parts: Parts,
        diff_dst: Buffer,
        partial: Buffer,
        images: Span,
        share: Affine,
    ) -> None:
        """Row sums of one share, channels dealt over all CPEs."""
        cpes, count = parts.machine.mesh.cpes, images[1]
        limit = parts.machine.ldm.usable_bytes // 16  # two slots, and half of the LDM left free
        positions = split(parts.planes.positions, max(1, limit))
        together = split(count, max(1, limit // positions))

        def channels(start: Affine, size: int, group: Affine) -> None:
            rows = round_up(size, cpes)
            total = b.tile("sum", (rows,), (Along.MESH,))
            part = (Along.MESH, Along.NONE, Along.NONE)
            tile = b.tile("diff", (rows, together, positions), part, 2)
            b.apply(Zero(), box(total))

            def some_images(first: Affine, number: int) -> None:
                def fetch(at: Affine, length: int, slot: Slot) -> None:
                    span = (first + images[0], number)
                    mem = box(diff_dst, span, (group, 1), (start, size), (at, length))
                    valid = box(tile, size, number, length, slot=slot)
                    b.get(valid, mem, Reply("diff", slot), (2, 0, 3))

                def compute(at: Affine, length: int, slot: Slot, _: bool) -> None:
                    b.wait(Reply("diff", slot))
                    valid = box(tile, size, number, length, slot=slot)
                    b.apply(RowSum(), box(total, size), valid)

                b.pipeline("p", parts.planes.positions, positions, fetch, compute)

            b.tiles("s", count, together, some_images)
            mem = box(partial, (share, 1), (group * parts.oc + start, size))
            b.put(box(total, size), mem, Reply("sum"), (1,))
            b.wait(Reply("sum"))

        with b.loop("group", parts.geometry.groups) as group:
            b.tiles("o", parts.oc, cpes, lambda start, size: channels(start, size, group))


def _add_up(b: Builder, parts: Parts, partial: Buffer, target: Buffer, accumulate: bool) -> None:
    """target = or += the shares, in order. Rows and columns are the last two axes."""
    shape, mesh = target.shape, parts.machine.mesh
    elements = parts.machine.ldm.usable_bytes // 16  # two tiles of floats in half of the LDM
    dealt: tuple[Along, ...] = (Along.MESH,)
    limits: tuple[int, ...] = (elements * mesh.cpes,)
    if len(shape) > 1:
        cols = min(shape[-1], elements * mesh.cols)
        rows = mesh.rows * max(1, elements * mesh.cols // round_up(cols, mesh.cols))
        dealt, limits = (Along.NONE, Along.ROW, Along.COL), (1, rows, cols)

    def tile(spans: tuple[Span, ...]) -> None:
        if len(spans) < len(shape):
            axis = len(spans)
            size = split(shape[axis], limits[axis])
            b.tiles("abc"[axis], shape[axis], size, lambda *span: tile((*spans, span)))
            return
        ways = [along.ways((mesh.rows, mesh.cols)) for along in dealt]
        full = tuple(round_up(span[1], way) for span, way in zip(spans, ways, strict=True))
        with b.scope():
            total, term = b.tile("total", full, dealt), b.tile("term", full, dealt)
            valid = [span[1] for span in spans]

            def fetch(tile: Buffer, mem: Region) -> None:
                axes = tuple(range(len(mem.shape) - len(shape), len(mem.shape)))
                b.get(box(tile, *valid), mem, Reply("term"), axes)
                b.wait(Reply("term"))

            shares = [box(partial, (s, 1), *spans) for s in range(partial.shape[0])]
            first, *rest = [box(target, *spans), *shares] if accumulate else shares
            fetch(total, first)
            for share in rest:
                fetch(term, share)
                b.apply(Add(), box(total, *valid), box(term, *valid))
            b.put(box(total, *valid), box(target, *spans), Reply("total"))
            b.wait(Reply("total"))

    tile(())
