"""Matrix products: dot products where both sides are contiguous along k, packed panels otherwise.

Tasks are blocks of C. A task puts the starting value (what is there, the bias, or zero) into its
block and then adds products for one stretch of k after the other.
"""

from __future__ import annotations

from typing import Any

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.native import carray, compiled, floats
from swcaffe.engine.host.plans import Job, Scratch, TaskPlan, Workspace, fields, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.engine.host.vectors import copy_vector
from swcaffe.kernels import (
    COLS,
    DOT_COLS,
    DOT_FLOATS,
    DOT_ROWS,
    ROWS,
    WIDTH,
    dot_tile,
    outer_tile,
    pack_cols,
    pack_rows,
)
from swcaffe.operators.base import Operator
from swcaffe.operators.gemm import Gemm

__all__ = ["DotProducts", "PackedProduct"]

LAYOUT = fields(
    "a b bias c",
    "m n k trans_a trans_b accumulate has_bias height width depth row_blocks tile_at",
)
DEPTH = 512
"""Steps of k at once; a block of A then stays in the first-level cache."""
WIDE = 256
"""Columns of a block of packed products: its panels stay in the second-level cache."""
TASKS = 16
"""Fewest tasks to aim at."""


@compiled
def _start(t: Any, i0: int, j0: int, height: int, width: int) -> None:
    """The value that products are added to."""
    if t.accumulate:
        return
    for i in range(i0, i0 + height):
        row = floats(t.c + 4 * (i * t.n + j0), width)
        if t.has_bias:
            bias = floats(t.bias + 4 * j0, width)
            for j in range(width):
                row[j] = bias[j]
        else:
            for j in range(width):
                row[j] = 0


@compiled
def _add_tile(t: Any, tile: int, pitch: int, i0: int, j0: int, rows: int, cols: int) -> None:
    """Add a tile to C."""
    for i in range(rows):
        row = floats(t.c + 4 * ((i0 + i) * t.n + j0), cols)
        part = floats(tile + 4 * i * pitch, cols)
        for j in range(cols):
            row[j] += part[j]


@task(LAYOUT)
def dot_products(table: Any, index: int, worker: int) -> None:
    """One block of C = a @ b.T."""
    t = carray(table, 1)[0]
    i0, j0 = index % t.row_blocks * t.height, index // t.row_blocks * t.width
    height, width = min(t.height, t.m - i0), min(t.width, t.n - j0)
    tile = t.private + worker * t.private_bytes
    _start(t, i0, j0, height, width)
    stretches = max(1, t.k // t.depth)
    for stretch in range(stretches):
        k0 = stretch * t.depth
        depth = t.k - k0 if stretch == stretches - 1 else t.depth
        for j in range(j0, j0 + width, DOT_COLS):
            cols = min(DOT_COLS, j0 + width - j)
            right = t.b + 4 * (j * t.k + k0)
            for i in range(i0, i0 + height, DOT_ROWS):
                rows = min(DOT_ROWS, i0 + height - i)
                dot_tile(rows, cols, depth, t.a + 4 * (i * t.k + k0), t.k, right, t.k, tile)
                _add_tile(t, tile, DOT_COLS, i, j, rows, cols)


@task(LAYOUT)
def pack_left(table: Any, index: int, worker: int) -> None:
    """Pack ROWS rows of A, one stretch of k after the other."""
    t = carray(table, 1)[0]
    a_row, a_col = (1, t.m) if t.trans_a else (t.k, 1)
    i0 = index * ROWS
    rows = min(ROWS, t.m - i0)
    source = floats(t.a, t.m * t.k)[i0 * a_row :]
    out = floats(t.shared + 4 * i0 * t.k, rows * t.k)
    pack_rows(source, rows, t.k, a_row, a_col, out, t.m - i0)


@compiled
def _copy_rows(source: int, pitch: int, depth: int, width: int, panels: int) -> None:
    """Deal rows of B to whole panels, row by row as they lie in memory."""
    for p in range(depth):
        row = source + 4 * p * pitch
        for j in range(0, width, COLS):
            target = panels + 4 * (j * depth + p * COLS)
            for x in range(0, COLS, WIDTH):
                copy_vector(row + 4 * (j + x), target + 4 * x)


@task(LAYOUT)
def packed_product(table: Any, index: int, worker: int) -> None:
    """One block of C from packed A and panels of B."""
    t = carray(table, 1)[0]
    b_row, b_col = (1, t.k) if t.trans_b else (t.n, 1)
    i0, j0 = index % t.row_blocks * t.height, index // t.row_blocks * t.width
    height, width = min(t.height, t.m - i0), min(t.width, t.n - j0)
    panels = t.private + worker * t.private_bytes
    tile = panels + t.tile_at
    source = floats(t.b, t.k * t.n)
    _start(t, i0, j0, height, width)
    for k0 in range(0, t.k, t.depth):
        depth = min(t.depth, t.k - k0)
        size = depth * COLS
        whole = width // COLS * COLS if b_col == 1 else 0
        _copy_rows(t.b + 4 * (k0 * t.n + j0), t.n, depth, whole, panels)
        for j in range(whole, width, COLS):
            packed = floats(panels + 4 * (j // COLS) * size, size)
            columns = source[k0 * b_row + (j0 + j) * b_col :]
            pack_cols(columns, depth, min(COLS, width - j), b_row, b_col, packed)
        for i in range(i0, i0 + height, ROWS):
            rows = min(ROWS, t.m - i)
            left = t.shared + 4 * (i * t.k + k0 * rows)
            for j in range(j0, j0 + width, COLS):
                cols = min(COLS, j0 + width - j)
                panel = panels + 4 * ((j - j0) // COLS) * size
                if cols == COLS:
                    outer_tile(rows, depth, left, panel, t.c + 4 * (i * t.n + j), t.n, 1)
                else:
                    outer_tile(rows, depth, left, panel, tile, COLS, 0)
                    _add_tile(t, tile, COLS, i, j, rows, cols)


def _values(op: Gemm, unit_rows: int, unit_cols: int, most: int) -> tuple[dict[str, int], int]:
    """Words of the table and the number of blocks of C, whose sides are whole tiles."""
    width = -(-most // unit_cols) * unit_cols
    columns = -(-op.n // width)
    height = split_evenly(op.m, -(-TASKS // max(1, columns)))
    height = min(-(-height // unit_rows), -(-256 // unit_rows)) * unit_rows
    row_blocks = -(-op.m // height)
    values = {name: int(getattr(op, name)) for name in ("m", "n", "k", "trans_a", "trans_b")}
    values |= {"accumulate": int(op.accumulate), "has_bias": int(op.has_bias), "depth": DEPTH}
    values |= {"height": height, "width": width, "row_blocks": row_blocks}
    return values, row_blocks * columns


class DotProducts:
    """a @ b.T, neither side packed."""

    name = "dot products"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Rows of a and of b contiguous along k, and a vector long."""
        assert isinstance(op, Gemm), op
        if op.trans_a or not op.trans_b:
            return Refusal("a or b is not contiguous along k")
        if op.k < WIDTH:
            return Refusal(f"k = {op.k} fills no vector of {WIDTH}")
        return None

    def plan(self, op: Operator) -> Plan:
        """One job."""
        assert isinstance(op, Gemm), op
        values, count = _values(op, DOT_ROWS, DOT_COLS, 64)
        scratch = Scratch(0, 4 * DOT_FLOATS)
        jobs = [Job(dot_products, count)]
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, scratch=scratch)


class PackedProduct:
    """Every product."""

    name = "packed product"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Every product."""
        return None

    def plan(self, op: Operator) -> Plan:
        """Pack a, then multiply."""
        assert isinstance(op, Gemm), op
        values, count = _values(op, ROWS, COLS, WIDE)
        tile_at = 4 * DEPTH * values["width"]
        values["tile_at"] = tile_at
        scratch = Scratch(4 * op.m * op.k, tile_at + 4 * ROWS * COLS)
        jobs = [Job(pack_left, -(-op.m // ROWS)), Job(packed_product, count)]
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, scratch=scratch)
