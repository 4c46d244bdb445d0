"""Matrix product on the mesh by register communication, in as many steps as the mesh has rows.

A, B and C are cut into rows x cols blocks, block (i, j) in CPE (i, j), nothing duplicated. At step
t the CPEs of column t broadcast their block of A along their rows, those of row t their block of B
along their columns, and every CPE multiplies what it received [Fang 2019, section 4.2].

Numbers are float in memory and double in registers: A and B are widened in the LDM beforehand,
since load-and-broadcast exists for double only; C is widened as it is loaded into the accumulators
and rounded once as it is stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from swcaffe.arrays import Array, Shape
from swcaffe.ir.buffer import Along, MeshShape, Region
from swcaffe.ir.expr import Affine, var
from swcaffe.ir.intrinsic import Intrinsic, Work
from swcaffe.ir.stmt import Apply, For, Seq, Stmt
from swcaffe.machine.spec import Machine

__all__ = ["MeshGemm", "RlcGemm", "Widen", "matrix"]


def matrix(shape: Shape) -> tuple[int, int]:
    """A block as a matrix: its first axis, and the others flattened."""
    return shape[0], math.prod(shape[1:])


def _whole(region: Region) -> Region:
    """The buffer that a region is part of."""
    shape = region.buffer.shape
    return replace(region, start=(Affine(),) * len(shape), shape=shape)


@dataclass(frozen=True, slots=True)
class Widen(Intrinsic):
    """Copy a block of floats to doubles, transposed on request. Arguments: double, float."""

    name: ClassVar[str] = "widen"
    c_name: ClassVar[str] = "sw_widen"
    transpose: bool = False

    def tile(self, *args: Array) -> None:
        """target = source, or its transpose."""
        target, source = args
        source = source.reshape(source.shape[0], -1)
        target[...] = (source.T if self.transpose else source).reshape(target.shape)

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The floats."""
        return args[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The doubles."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """A vector load and store for each register; a transposition shuffles on the other pipe."""
        vectors = -(-math.prod(sizes[1]) // machine.kernel.lanes)
        return Work(cycles=2 * vectors * machine.kernel.vector_load_cycles)


@dataclass(frozen=True, slots=True)
class RlcGemm(Intrinsic):
    """One step of the product: broadcast, receive, multiply, in one kernel.

    Arguments: C (float), A and B (double; B as (k, n)). For each register tile and each k, the row
    bus carries tile_m replicated numbers of A, the column bus tile_n / lanes vectors of B. `step`
    is the expression for the column of senders of A, and the row of senders of B.
    """

    name: ClassVar[str] = "rlc_gemm"
    c_name: ClassVar[str] = "sw_rlc_gemm"
    step: Affine
    trans_a: bool = False
    accumulate: bool = True

    def tile(self, *args: Array) -> None:
        """No meaning on a tile: it moves data between CPEs."""
        raise NotImplementedError("rlc_gemm exists after expansion only")

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """A, B and, to be added to, C."""
        return args if self.accumulate else args[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """C."""
        return args[:1]

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """The counting formula: tile_cycles and cycles_per_k for each register tile."""
        (m, n), a = matrix(sizes[0]), matrix(sizes[1])
        k = a[0] if self.trans_a else a[1]
        kernel, mesh = machine.kernel, machine.mesh
        tiles = (m // kernel.tile_m) * (n // kernel.tile_n)
        return Work(
            cycles=tiles * (kernel.cycles_per_k * k + kernel.tile_cycles),
            pipeline="P0",
            flops=2 * m * n * k * mesh.cpes,
            row_messages=tiles * k * kernel.tile_m * mesh.rows,
            col_messages=tiles * k * (kernel.tile_n // kernel.lanes) * mesh.cols,
        )


@dataclass(frozen=True, slots=True)
class MeshGemm(Intrinsic):
    """C += op(A) @ op(B), or = without accumulate. Arguments: C, A, B, wide A, wide B.

    Tiles are matrices of their first axis by all others; C (m, n), A (m, k) or (k, m) with trans_a,
    B (k, n) or (n, k) with trans_b. Rows and columns of C are dealt over mesh rows and columns, k
    over columns in A and over rows in B. The regions are the valid parts; the kernel works on whole
    blocks, so what pads A and B must be zero. Wide A and B are LDM scratch of the kernel.
    """

    name: ClassVar[str] = "mesh_gemm"
    c_name: ClassVar[str] = "spm_gemm"
    trans_a: bool = False
    trans_b: bool = False
    accumulate: bool = True

    def tile(self, *args: Array) -> None:
        """The product on the valid parts, in the arrays' own precision."""
        c, a, b = (x.reshape(x.shape[0], -1) for x in args[:3])
        product = (a.T if self.trans_a else a) @ (b.T if self.trans_b else b)
        c[...] = c + product if self.accumulate else product

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The whole tiles, padding included."""
        tiles = tuple(_whole(region) for region in args[:3])
        return tiles if self.accumulate else tiles[1:]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The whole tile of C, and the scratch."""
        return tuple(_whole(args[i]) for i in (0, 3, 4))

    def refuse(self, args: tuple[Region, ...], machine: Machine) -> str | None:
        """Partition, block sizes and multiples that the kernel needs."""
        mesh, kernel = (machine.mesh.rows, machine.mesh.cols), machine.kernel
        if mesh[0] != mesh[1]:
            return f"needs a square mesh, not {mesh[0]} x {mesh[1]}"
        wanted = self._partitions()
        for region, name, along in zip(args, ("C", "A", "B"), wanted, strict=False):
            found = region.buffer.partition
            dealt = tuple(a for a in found[1:] if a is not Along.NONE)
            if found[0] is not along[0] or dealt != along[1:]:
                return f"{name} must be dealt by {[a.value for a in along]}"
        m, n, k = self._block(args, mesh)
        b = matrix(args[2].buffer.block(mesh))
        if (b[::-1] if self.trans_b else b) != (k, n):
            return f"block of B {b} does not fit m, n, k = {m}, {n}, {k}"
        if m % kernel.tile_m or n % kernel.tile_n:
            return f"block of C {m} x {n} is no multiple of {kernel.tile_m} x {kernel.tile_n}"
        return None

    def _partitions(self) -> tuple[tuple[Along, Along], ...]:
        grid = (Along.ROW, Along.COL)
        return grid, grid[::-1] if self.trans_a else grid, grid[::-1] if self.trans_b else grid

    def _block(self, args: tuple[Region, ...], mesh: MeshShape) -> tuple[int, int, int]:
        m, n = matrix(args[0].buffer.block(mesh))
        a = matrix(args[1].buffer.block(mesh))
        return m, n, a[0] if self.trans_a else a[1]

    def expand(self, args: tuple[Region, ...], blocks: tuple[Region, ...], mesh: MeshShape) -> Stmt:
        """Widen A and B, then one RlcGemm for each step; only the first may overwrite C."""
        c, a, b, wide_a, wide_b = (_whole(block) for block in blocks)
        head: tuple[Stmt, ...] = (
            Apply(Widen(), (wide_a, a)),
            Apply(Widen(self.trans_b), (wide_b, b)),
        )
        first = 0 if self.accumulate else 1
        if first:
            head += (Apply(RlcGemm(Affine(), self.trans_a, False), (c, wide_a, wide_b)),)
        step = RlcGemm(var("t") + first, self.trans_a)
        loop = For("t", mesh[0] - first, Seq((Apply(step, (c, wide_a, wide_b)),)))
        return Seq((*head, loop))

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Priced through its expansion."""
        raise NotImplementedError("mesh_gemm is counted after expansion")
