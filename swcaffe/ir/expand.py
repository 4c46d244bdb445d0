"""The only lowering: from tiles over the mesh to what each CPE does, given its ROW and COL."""

from __future__ import annotations

from dataclasses import replace

from swcaffe.ir.buffer import Buffer, MeshShape, Region, Scope
from swcaffe.ir.expr import Affine, Clamp, Extent
from swcaffe.ir.stmt import Alloc, Apply, Copy, Program, Stmt
from swcaffe.ir.visitor import Rewriter

__all__ = ["expand"]


def expand(program: Program) -> Program:
    """The CPE-level program of a mesh-level one.

    before:  get A[:50, :64] from a[64*i:+50, …]         A 64 x 64, dealt by rows and columns
    after:   get A[:clamp(50 - 8*ROW, 0, 8), :8] from a[64*i + 8*ROW:+…, … + 8*COL:+…]
    """
    assert program.level == "mesh", f"{program.name} is expanded already"
    body = _Expand(program.mesh).seq(program.body)
    return replace(program, body=body, level="cpe")


class _Expand(Rewriter):
    """Replaces tiles by blocks, copies by each CPE's share, intrinsics by their expansion."""

    def __init__(self, mesh: MeshShape) -> None:
        self.mesh = mesh

    def buffer(self, buffer: Buffer) -> Buffer:
        """The block of a tile; main memory stays."""
        if buffer.scope is Scope.MEM:
            return buffer
        return replace(buffer, shape=buffer.block(self.mesh), partition=())

    def region(self, region: Region) -> Region:
        """A CPE's part of a tile's region."""
        buffer = self.buffer(region.buffer)
        shape: list[Extent] = []
        for size, block, full, along in zip(
            region.sizes, buffer.shape, region.buffer.shape, region.buffer.partition, strict=True
        ):
            if size == full or along.ways(self.mesh) == 1:
                shape.append(block if size == full else size)
            else:
                shape.append(Clamp(along.index(self.mesh) * -block + size, block))
        return replace(region, buffer=buffer, shape=tuple(shape))

    def alloc(self, stmt: Alloc) -> Stmt:
        """Blocks instead of tiles."""
        return Alloc(self.buffer(stmt.buffer))

    def copy(self, stmt: Copy) -> Stmt:
        """Each CPE's share; where the tile is replicated, every CPE copies all of it."""
        ldm = self.region(stmt.ldm)
        start: list[Affine] = list(stmt.mem.start)
        shape: list[Extent] = list(stmt.mem.shape)
        for axis, size, block, along in zip(
            stmt.axes, ldm.shape, ldm.buffer.shape, stmt.ldm.buffer.partition, strict=True
        ):
            start[axis] = start[axis] + along.index(self.mesh) * block
            shape[axis] = size
        mem = replace(stmt.mem, start=tuple(start), shape=tuple(shape))
        return replace(stmt, ldm=ldm, mem=mem)

    def apply(self, stmt: Apply) -> Stmt:
        """Whatever the intrinsic says."""
        blocks = tuple(self.region(region) for region in stmt.args)
        return stmt.intrinsic.expand(stmt.args, blocks, self.mesh)
