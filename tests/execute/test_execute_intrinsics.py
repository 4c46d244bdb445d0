"""Each intrinsic's compiled leaves, at both fidelities, against its meaning on numpy views."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from swcaffe.execute.mesh import MeshExecutor
from swcaffe.execute.tile import CoreGroups, TileExecutor
from swcaffe.ir.buffer import Along
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.intrinsics.elementwise import Add, Broadcast, RowSum
from swcaffe.ir.intrinsics.fill import Zero, ZeroOutside
from swcaffe.ir.intrinsics.im2col import Col2im, Im2col, Windows
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm, RlcGemm, Widen
from swcaffe.ir.stmt import Reply
from swcaffe.machine.toy import TOY

ROW, COL, MESH, NONE = Along.ROW, Along.COL, Along.MESH, Along.NONE
ROOMY = replace(TOY, ldm=replace(TOY.ldm, capacity_bytes=1 << 16))
PLAIN = Windows((3, 4), (3, 2), (1, 1), (1, 1), (0, 0))
CLIPPED = Windows((4, 5), (3, 3), (2, 1), (1, 2), (-1, -2))
REVERSED = Windows((5, 6), (3, 3), (1, 1), (-1, -1), (1, 1))

CASES = {
    "zero": (Zero(), [((4, 6), (ROW, COL), (3, 5))]),
    "zero_outside": (
        ZeroOutside(),
        [((4, 6), (ROW, COL), (4, 6)), ((4, 6), (ROW, COL), (3, 2))],
    ),
    "zero_outside of an image tile": (
        ZeroOutside(),
        [((4, 2, 6), (ROW, COL, NONE), (4, 2, 6)), ((4, 2, 6), (ROW, COL, NONE), (3, 1, 4))],
    ),
    "add": (Add(), [((8, 6), (ROW, COL), (5, 6))] * 2),
    "broadcast of rows": (
        Broadcast(0),
        [((4, 2, 3), (ROW, COL, NONE), (4, 2, 3)), ((4,), (ROW,), (4,))],
    ),
    "broadcast of columns": (
        Broadcast(1),
        [((4, 6), (ROW, COL), (4, 6)), ((6,), (COL,), (6,))],
    ),
    "row_sum": (RowSum(), [((8,), (MESH,), (7,)), ((8, 3, 5), (MESH, NONE, NONE), (7, 2, 4))]),
    "product": (
        MeshGemm(),
        [
            ((8, 32), (ROW, COL), (7, 30)),
            ((8, 6), (ROW, COL), (7, 5)),
            ((6, 32), (ROW, COL), (5, 30)),
        ],
    ),
    "product, a and b transposed": (
        MeshGemm(trans_a=True, trans_b=True, accumulate=False),
        [
            ((8, 32), (ROW, COL), (7, 30)),
            ((6, 8), (COL, ROW), (5, 7)),
            ((32, 6), (COL, ROW), (30, 5)),
        ],
    ),
    "im2col": (
        Im2col(PLAIN),
        [((12, 2, 12), (ROW, COL, NONE), (12, 2, 12)), ((2, 2, 5, 5), (ROW, COL, NONE, NONE), None)],
    ),
    "im2col, clipped": (
        Im2col(CLIPPED),
        [((18, 2, 20), (ROW, COL, NONE), (18, 1, 20)), ((2, 2, 7, 6), (ROW, COL, NONE, NONE), (2, 1, 7, 6))],
    ),
    "im2col of rows dealt alone": (
        Im2col(CLIPPED),
        [((20, 2, 20), (COL, ROW, NONE), (18, 2, 20)), ((2, 2, 7, 6), (NONE, ROW, NONE, NONE), None)],
    ),
    "im2col, taps reversed": (
        Im2col(REVERSED),
        [((18, 2, 30), (ROW, COL, NONE), (18, 2, 30)), ((2, 2, 5, 6), (ROW, COL, NONE, NONE), None)],
    ),
    "col2im": (
        Col2im(PLAIN),
        [((2, 2, 5, 5), (ROW, COL, NONE, NONE), None), ((12, 2, 12), (ROW, COL, NONE), (12, 2, 12))],
    ),
    "col2im, clipped": (
        Col2im(CLIPPED),
        [((2, 2, 7, 6), (ROW, COL, NONE, NONE), (2, 1, 7, 6)), ((18, 2, 20), (ROW, COL, NONE), (18, 1, 20))],
    ),
}  # fmt: skip


def run_one(intrinsic, specs, fidelity):
    """(arrays before, arrays after): each tile is got, changed, and all of it put back."""
    rng = np.random.default_rng(5)
    b = Builder("one", (2, 2))
    before, tiles = [], []
    for number, (shape, partition, valid) in enumerate(specs):
        array = rng.standard_normal(shape).astype(np.float32)
        if intrinsic.name == "mesh_gemm" and number:  # padding of A and B is zero
            array[
                tuple(np.ix_(*(np.arange(n) >= v for n, v in zip(shape, valid, strict=True))))
            ] = 0
            array[valid[0] :], array[:, valid[1] :] = 0, 0
        before.append(array)
        param = b.param(f"p{number}", shape)
        tile = b.tile(f"t{number}", shape, partition)
        b.get(box(tile), box(param), Reply("in"))
        b.wait(Reply("in"))
        tiles.append((tile, param, box(tile, *(valid or shape))))
    args = [region for _, _, region in tiles]
    if intrinsic.name == "zero_outside":
        args = [tiles[0][2], box(tiles[0][0], *specs[1][2])]
    if intrinsic.name == "mesh_gemm":
        args += [box(b.tile(f"w{i}", *specs[i][:2], 1, "f64")) for i in (1, 2)]
    b.apply(intrinsic, *args)
    tile, param, _ = tiles[0]
    if all(along is not NONE for along in tile.partition[:2]):
        b.put(box(tile), box(param), Reply("out"))
        b.wait(Reply("out"))
    after = [array.copy() for array in before]
    if fidelity == "tile":
        TileExecutor(b.build(), CoreGroups(ROOMY, 1)).run(after)
    else:
        MeshExecutor(b.build(), ROOMY).run(after)
    return before, after


@pytest.mark.parametrize("fidelity", ["tile", "mesh"])
@pytest.mark.parametrize("case", CASES)
def test_leaf_does_what_the_intrinsic_means(case, fidelity):
    intrinsic, specs = CASES[case]
    before, after = run_one(intrinsic, specs, fidelity)
    wanted = [array.copy() for array in before]
    views = [
        array[tuple(slice(n) for n in (valid or shape))]
        for array, (shape, _, valid) in zip(wanted, specs, strict=True)
    ]
    if intrinsic.name == "zero_outside":
        views = [wanted[0], wanted[0][tuple(slice(n) for n in specs[1][2])]]
    if intrinsic.name == "mesh_gemm":
        product = views[0].copy()
        intrinsic.tile(product, *views[1:])
        views[0][...] = product
    else:
        intrinsic.tile(*views)
    valid = tuple(slice(n) for n in (specs[0][2] or specs[0][0]))
    region = slice(None) if intrinsic.name == "zero_outside" else valid
    np.testing.assert_allclose(after[0][region], wanted[0][region], rtol=1e-5, atol=1e-5)


def test_kernel_steps_have_no_meaning_on_a_tile():
    with pytest.raises(NotImplementedError):
        RlcGemm(box(Builder("x", (2, 2)).param("p", (1,))).start[0]).tile()


def test_widening_keeps_values_and_transposes():
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    target = np.zeros((3, 2))
    Widen(transpose=True).tile(target, source)
    assert (target == source.T).all()
