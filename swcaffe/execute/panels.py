"""Which LDM tiles the tile executor keeps in panels, as the host's matrix kernel reads them.

A column matrix that only im2col writes and only products read, as B, need not be row-major: nobody
else sees it. In panels of the kernel's width it takes the same place in the LDM and saves packing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from swcaffe.ir.buffer import Buffer, Scope
from swcaffe.ir.intrinsics.fill import ZeroOutside
from swcaffe.ir.intrinsics.im2col import Im2col
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm
from swcaffe.ir.stmt import Apply, Copy, For, Program, Seq, Stmt
from swcaffe.kernels import COLS

__all__ = ["paneled"]


def paneled(program: Program) -> frozenset[Buffer]:
    """The LDM buffers that may be kept in panels of COLS columns."""
    uses: dict[Buffer, bool] = {}
    for buffer, fits in _uses(program.body):
        uses[buffer] = uses.get(buffer, True) and fits
    written = {buffer for buffer in uses if _whole_panels(buffer)}
    return frozenset(buffer for buffer, fits in uses.items() if fits and buffer in written)


def _whole_panels(buffer: Buffer) -> bool:
    """Whether its columns are a number of panels, in one slot."""
    return buffer.slots == 1 and math.prod(buffer.shape[1:]) % COLS == 0


def _uses(stmt: Stmt) -> Iterator[tuple[Buffer, bool]]:
    """(LDM buffer, whether this use is one that panels can serve) of every use."""
    if isinstance(stmt, Seq):
        for part in stmt.body:
            yield from _uses(part)
    elif isinstance(stmt, For):
        yield from _uses(stmt.body)
    elif isinstance(stmt, Copy):
        yield stmt.ldm.buffer, False
    elif isinstance(stmt, Apply):
        for number, region in enumerate(stmt.args):
            if region.buffer.scope is Scope.LDM:
                yield region.buffer, _serves(stmt, number)


def _serves(stmt: Apply, number: int) -> bool:
    """Whether argument `number` may be in panels."""
    intrinsic = stmt.intrinsic
    if isinstance(intrinsic, Im2col):
        return number == 0 and intrinsic.windows.stride[1] == 1
    if isinstance(intrinsic, MeshGemm):
        return number == 2 and not intrinsic.trans_a and not intrinsic.trans_b
    return isinstance(intrinsic, ZeroOutside)
