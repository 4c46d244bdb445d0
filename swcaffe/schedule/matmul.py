"""The blocked matrix product that all GEMM-like schedules share.

C stays in the LDM while k is walked, A and B are double-buffered: bytes per multiply-add are then
1 / tile_m + 1 / tile_n, whatever the depth of a tile [Fang 2019, section 4.3]. Tiles that are not
full are padded with zeros in the LDM, never in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from swcaffe.arrays import Shape
from swcaffe.ir.buffer import Along, Buffer, Region
from swcaffe.ir.builder import Builder, Span, box, round_up
from swcaffe.ir.expr import ZERO, Affine, Slot
from swcaffe.ir.intrinsics.elementwise import Broadcast
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm
from swcaffe.ir.stmt import Reply
from swcaffe.machine.spec import Machine

__all__ = ["Images", "MatrixView", "Product", "ldm_bytes", "sketch", "split"]


def split(total: int, limit: int, multiple: int = 1) -> int:
    """The tile length that cuts `total` into the fewest equal tiles not over `limit`."""
    return min(total, round_up(-(-total // -(-total // limit)), multiple))


@dataclass(frozen=True, slots=True)
class Images:
    """A second axis beside the columns of a matrix: images, each with its own columns.

    dealt  whether the mesh direction that deals columns deals images, or positions within each
    """

    axis: int
    span: Span
    dealt: bool = True

    @property
    def count(self) -> int:
        """Number of images."""
        return self.span[1]

    def shape(self, cols: int, ways: int, multiple: int) -> Shape:
        """(images, columns) padded so that each CPE's block has a multiple of elements."""
        if self.dealt:
            images = round_up(self.count, ways)
            return images, round_up(cols, multiple // math.gcd(images // ways, multiple))
        return self.count, round_up(cols, ways * multiple // math.gcd(self.count, multiple))


@dataclass(frozen=True, slots=True)
class MatrixView:
    """A matrix in memory: which axes of a buffer are its rows and columns.

    Other axes stand at one index each: `fixed` gives it, 0 where it does not.
    """

    buffer: Buffer
    row_axis: int
    col_axis: int
    images: Images | None = None
    fixed: dict[int, Affine] = field(default_factory=dict)

    @property
    def axes(self) -> tuple[int, ...]:
        """Memory axes of a tile: rows, images if any, columns."""
        middle = () if self.images is None else (self.images.axis,)
        return (self.row_axis, *middle, self.col_axis)

    def mem(self, rows: Span, cols: Span) -> Region:
        """The part of these rows and columns, of all images."""
        spans: list[Span | int] = [(self.fixed.get(d, 0), 1) for d in range(len(self.buffer.shape))]
        spans[self.row_axis], spans[self.col_axis] = rows, cols
        if self.images is not None:
            spans[self.images.axis] = self.images.span
        return box(self.buffer, *spans)

    def tile_shape(
        self, rows: int, cols: int, ways: tuple[int, int], multiples: tuple[int, int]
    ) -> Shape:
        """Shape of the LDM tile for so many rows and columns, padded for the kernel."""
        first = round_up(rows, ways[0] * multiples[0])
        if self.images is None:
            return first, round_up(cols, ways[1] * multiples[1])
        return (first, *self.images.shape(cols, ways[1], multiples[1]))

    def partition(self, rows: Along, cols: Along) -> tuple[Along, ...]:
        """How the tile is dealt."""
        if self.images is None:
            return rows, cols
        return (rows, cols, Along.NONE) if self.images.dealt else (rows, Along.NONE, cols)

    def valid(self, tile: Buffer, rows: int, cols: int, slot: Slot = ZERO) -> Region:
        """The part of the tile that so many rows and columns fill."""
        if self.images is None:
            return box(tile, rows, cols, slot=slot)
        return box(tile, rows, self.images.count, cols, slot=slot)

    def operand(self, tile: Buffer, rows: int, cols: int, slot: Slot = ZERO) -> Region:
        """The same as the kernel takes it: the columns of each image in full."""
        if self.images is None:
            return box(tile, rows, cols, slot=slot)
        return box(tile, rows, self.images.count, slot=slot)


@dataclass(frozen=True, slots=True)
class Product:
    """C (m, n) = op(A) op(B), + C with accumulate, or + bias along rows (0) or columns (1) of C.

    Operands are views as stored: A is (k, m) with trans_a, B (n, k) with trans_b.
    """

    machine: Machine
    a: MatrixView
    b: MatrixView
    c: MatrixView
    m: int
    n: int
    k: int
    trans_a: bool = False
    trans_b: bool = False
    accumulate: bool = False
    bias: Buffer | None = None
    bias_axis: int = 0
    bias_start: Affine = ZERO

    def emit(self, b: Builder, tile_m: int, tile_n: int, tile_k: int, parallel: str = "") -> None:
        """Write the loops; `parallel` names the axis ("m", "n") that core groups share, if any."""

        def over_m(inner: Callable[[Affine, int], None]) -> None:
            b.tiles("i", self.m, tile_m, inner, parallel=parallel == "m")

        def over_n(inner: Callable[[Affine, int], None]) -> None:
            b.tiles("j", self.n, tile_n, inner, parallel=parallel == "n")

        if parallel == "n":
            over_n(lambda j, n: over_m(lambda i, m: self._tile(b, (i, m), (j, n), tile_k)))
        else:
            over_m(lambda i, m: over_n(lambda j, n: self._tile(b, (i, m), (j, n), tile_k)))

    def shapes(self, m: int, n: int, k: int) -> tuple[Shape, Shape, Shape]:
        """Shapes of the tiles of A, B and C."""
        mesh, kernel = self.machine.mesh, self.machine.kernel
        sizes = {"m": (m, kernel.tile_m), "n": (n, kernel.tile_n), "k": (k, 1)}

        def shape(view: MatrixView, axes: str, across: bool) -> Shape:
            rows, cols = axes[0], axes[1]
            pair = (mesh.cols, mesh.rows) if across else (mesh.rows, mesh.cols)
            multiples = sizes[rows][1], sizes[cols][1]
            return view.tile_shape(sizes[rows][0], sizes[cols][0], pair, multiples)

        return (
            shape(self.a, "km" if self.trans_a else "mk", self.trans_a),
            shape(self.b, "nk" if self.trans_b else "kn", self.trans_b),
            shape(self.c, "mn", False),
        )

    def _tile(self, b: Builder, i: tuple[Affine, int], j: tuple[Affine, int], tile_k: int) -> None:
        """One tile of C from its first value to memory."""
        m, n = i[1], j[1]
        a_shape, b_shape, c_shape = self.shapes(m, n, tile_k)
        rows, cols = Along.ROW, Along.COL
        a_dealt = (cols, rows) if self.trans_a else (rows, cols)
        b_dealt = (cols, rows) if self.trans_b else (rows, cols)
        slots = 1 if tile_k >= self.k else 2
        with b.scope():
            c_tile = b.tile("C", c_shape, self.c.partition(rows, cols))
            a_part, b_part = self.a.partition(*a_dealt), self.b.partition(*b_dealt)
            a_tile = b.tile("A", a_shape, a_part, slots)
            b_tile = b.tile("B", b_shape, b_part, slots)
            wide = (
                box(b.tile("wide_A", a_shape, a_part, 1, "f64")),
                box(b.tile("wide_B", b_shape, b_part, 1, "f64")),
            )
            starts = self._start(b, c_tile, i, j)

            def fetch(k: Affine, depth: int, slot: Slot) -> None:
                spans = (i, (k, depth))
                a_span = spans[::-1] if self.trans_a else spans
                b_span = (j, (k, depth)) if self.trans_b else ((k, depth), j)
                reply = Reply("ab", slot)
                a_valid = self.a.valid(a_tile, a_span[0][1], a_span[1][1], slot)
                b_valid = self.b.valid(b_tile, b_span[0][1], b_span[1][1], slot)
                b.get(a_valid, self.a.mem(*a_span), reply, self.a.axes, padded=True)
                b.get(b_valid, self.b.mem(*b_span), reply, self.b.axes, padded=True)

            def compute(k: Affine, depth: int, slot: Slot, first: bool) -> None:
                a_size = (depth, m) if self.trans_a else (m, depth)
                b_size = (n, depth) if self.trans_b else (depth, n)
                b.wait(Reply("ab", slot), 2)
                b.apply(
                    MeshGemm(self.trans_a, self.trans_b, accumulate=starts or not first),
                    self.c.operand(c_tile, m, n),
                    self.a.operand(a_tile, *a_size, slot),
                    self.b.operand(b_tile, *b_size, slot),
                    *wide,
                )

            b.pipeline("k", self.k, tile_k, fetch, compute)
            b.put(self.c.valid(c_tile, m, n), self.c.mem(i, j), Reply("c"), self.c.axes)
            b.wait(Reply("c"))

    def _start(self, b: Builder, c_tile: Buffer, i: Span, j: Span) -> bool:
        """Give C its first value; False if the first product is to overwrite it."""
        if self.accumulate:
            valid = self.c.valid(c_tile, i[1], j[1])
            b.get(valid, self.c.mem(i, j), Reply("c"), self.c.axes, padded=True)
            b.wait(Reply("c"))
        elif self.bias is not None:
            span = (i, j)[self.bias_axis]
            along = (Along.ROW, Along.COL)[self.bias_axis]
            vector = b.tile("bias", (c_tile.shape[self.bias_axis],), (along,))
            mem = box(self.bias, (self.bias_start + span[0], span[1]))
            b.get(box(vector, span[1]), mem, Reply("c"), padded=True)
            b.wait(Reply("c"))
            b.apply(Broadcast(self.bias_axis), box(c_tile), box(vector))
        return self.accumulate or self.bias is not None


def ldm_bytes(product: Product, tile_m: int, tile_n: int, tile_k: int) -> int:
    """LDM bytes on each CPE of the tiles that `emit` allocates."""
    a, b, c = (math.prod(s) for s in product.shapes(tile_m, tile_n, tile_k))
    slots = 1 if tile_k >= product.k else 2
    bias = 0 if product.bias is None else (tile_m, tile_n)[product.bias_axis] * 4
    cpes = product.machine.mesh.cpes
    slack = 8 * 32  # rounding of each buffer to a vector
    return (4 * c + (4 * slots + 8) * (a + b)) // cpes + bias // product.machine.mesh.rows + slack


def sketch(product: Product, tile_m: int, tile_n: int, tile_k: int) -> float:
    """Rough cycles of a product with these tiles: what orders candidates before they are priced."""
    machine = product.machine
    mesh, kernel, dma = machine.mesh, machine.kernel, machine.dma
    a, b, c = (math.prod(s) / mesh.cpes for s in product.shapes(tile_m, tile_n, tile_k))
    depth = -(-product.k // tile_k)
    cycles_per_element = 4 * mesh.clock_hz * mesh.cpes / dma.peak_bytes_per_s
    steps = mesh.rows * c / (kernel.tile_m * kernel.tile_n)
    per_step = kernel.cycles_per_k * math.sqrt(a * b / c) + kernel.tile_cycles
    compute = steps * per_step + (a + b) / 2
    fetch = (a + b) * cycles_per_element + dma.start_cycles
    store = (1 + product.accumulate) * (c * cycles_per_element + dma.start_cycles)
    tile = depth * max(compute, fetch) + min(compute, fetch) + store
    return -(-product.m // tile_m) * -(-product.n // tile_n) * tile
