"""Tiles in panels: chosen only where nobody can tell, and equal to row-major ones."""

from __future__ import annotations

import numpy as np
import pytest

from swcaffe.execute.panels import paneled
from swcaffe.execute.tile import CoreGroups, TileExecutor
from swcaffe.ir.buffer import Along
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.intrinsics.im2col import Im2col, Windows
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm
from swcaffe.ir.stmt import Reply
from swcaffe.ir.verify import verify
from swcaffe.kernels import COLS
from swcaffe.machine.sw26010 import SW26010

ROW, COL, NONE = Along.ROW, Along.COL, Along.NONE
R = Reply("r")


def convolution(out, kernel, stride, size, shift=(0, 0), *, seen=False):
    """C = A @ windows of one channel of 8 images; `seen` also puts the windows to memory."""
    b = Builder("conv", (8, 8))
    taps, positions = kernel[0] * kernel[1], out[0] * out[1]
    padded = -(-positions // 16) * 16
    depth = -(-taps // 8) * 8
    src, weights = b.param("src", (1, 8, *size)), b.param("weights", (32, taps))
    dst = b.param("dst", (32, 8, positions))
    strip = b.tile("strip", (1, 8, *size), (NONE, COL, NONE, NONE))
    a = b.tile("A", (32, depth), (ROW, COL))
    col = b.tile("B", (depth, 8, padded), (ROW, COL, NONE))
    c = b.tile("C", (32, 8, padded), (ROW, COL, NONE))
    wide = [b.tile("wide_A", a.shape, (ROW, COL), 1, "f64")]
    wide.append(b.tile("wide_B", col.shape, (ROW, COL, NONE), 1, "f64"))
    b.get(box(strip), box(src), R)
    b.get(box(a, 32, taps), box(weights), R, padded=True)
    b.wait(R, 2)
    windows = Windows(out, kernel, stride, (1, 1), shift)
    b.apply(Im2col(windows), box(col, taps, 8, positions), box(strip))
    if seen:
        scratch = b.scratch("col", (taps, 8, positions))
        b.put(box(col, taps, 8, positions), box(scratch), R)
        b.wait(R)
    product = MeshGemm(accumulate=False)
    b.apply(product, box(c), box(a, 32, taps), box(col, taps), *map(box, wide))
    b.put(box(c, 32, 8, positions), box(dst), R)
    b.wait(R)
    return b.build(), col


SHAPES = {
    "rows of one panel": ((4, 8), (3, 3), (1, 1), (6, 10), (0, 0)),
    "rows that cross panels": ((3, 23), (2, 5), (1, 1), (4, 27), (0, 0)),
    "long rows": ((1, 80), (1, 3), (1, 1), (1, 82), (0, 0)),
    "clipped on all sides": ((6, 7), (3, 3), (1, 1), (6, 7), (-1, -1)),
    "row stride": ((3, 8), (3, 3), (2, 1), (7, 10), (0, 0)),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_product_of_windows_in_panels_equals_that_of_rows(shape):
    results = []
    for seen in (False, True):
        program, col = convolution(*shape, seen=seen)
        assert (col in paneled(program)) != seen
        rng = np.random.default_rng(2)
        arrays = [rng.standard_normal(p.shape).astype(np.float32) for p in program.params]
        groups = CoreGroups(SW26010, 1)
        groups.ldm[0][:] = 0
        TileExecutor(program, groups).run(arrays)
        results.append(arrays[2])
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_columns_read_at_a_stride_stay_row_major():
    program, col = convolution((3, 4), (3, 3), (1, 2), (5, 9))
    assert col not in paneled(program)


def test_columns_that_fill_no_panel_stay_row_major():
    b = Builder("narrow", (1, 1))
    tile = b.tile("B", (8, COLS + 1), (NONE, NONE))
    b.apply(Im2col(Windows((1, 1), (1, 1), (1, 1), (1, 1), (0, 0))), box(tile), box(tile))
    assert tile not in paneled(b.build())


def test_windows_without_padding_are_verified_too():
    """The kernel reads whole tiles: without ZeroOutside, padding is unwritten and `verify` says so."""
    program, _ = convolution((4, 8), (3, 3), (1, 1), (6, 10))
    with pytest.raises(Exception, match="never written"):
        verify(program, SW26010)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 40, 63, 64, 65, 200])
def test_rows_of_every_length_are_copied_and_nothing_else(width):
    b = Builder("rows", (1, 1))
    x, y = b.param("x", (3, width + 2)), b.param("y", (3, width + 3))
    tile = b.tile("t", (3, width + 1), (ROW, COL))
    b.get(box(tile, 3, width), box(x, 3, (1, width)), R)
    b.wait(R)
    b.put(box(tile, 3, width), box(y, 3, (2, width)), R)
    b.wait(R)
    source = np.arange(x.count, dtype=np.float32).reshape(x.shape)
    target = np.full(y.shape, -1, np.float32)
    TileExecutor(b.build(), CoreGroups(SW26010, 1)).run((source, target))
    assert (target[:, 2 : 2 + width] == source[:, 1 : 1 + width]).all()
    assert (target[:, :2] == -1).all() and (target[:, 2 + width :] == -1).all()
