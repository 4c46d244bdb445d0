"""The micro-kernels against numpy's products in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from swcaffe.kernels import (
    COLS,
    DOT_COLS,
    DOT_FLOATS,
    DOT_ROWS,
    ROWS,
    WIDTH,
    dot_lines,
    dot_tile,
    outer_tile,
    pack_cols,
    pack_pieces,
    sgemm_leaf,
)

EPS = float(np.finfo(np.float32).eps)


@njit
def leaf(m, n, k, a, ar, ac, b, br, bc, c, cr):
    sgemm_leaf(m, n, k, a, ar, ac, b, br, bc, c, cr)


@njit
def outer(rows, k, a, panel, c, c_row, old):
    outer_tile(rows, k, a.ctypes.data, panel.ctypes.data, c.ctypes.data, c_row, old)


@njit
def dot(rows, cols, k, a, a_row, b, b_row, tile):
    dot_tile(rows, cols, k, a.ctypes.data, a_row, b.ctypes.data, b_row, tile.ctypes.data)


@njit
def lines(rows, steps, kind, a, a_row, b, starts, pieces, masks, tile):
    dot_lines(
        rows, steps, kind, a.ctypes.data, a_row, b.ctypes.data, starts.ctypes.data,
        pieces.ctypes.data, masks.ctypes.data, tile.ctypes.data,
    )  # fmt: skip


@njit
def gather(count, rows, images, offsets, sources, places, panel):
    pack_pieces(
        count, rows, images.ctypes.data, offsets.ctypes.data, sources.ctypes.data,
        places.ctypes.data, panel.ctypes.data,
    )  # fmt: skip


@njit
def columns(b, k, n, b_row, b_col, out):
    pack_cols(b, k, n, b_row, b_col, out)


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def assert_close(got, want, terms):
    error = np.linalg.norm(got - want)
    assert error <= 4 * EPS * max(1, terms) ** 0.5 * np.linalg.norm(want), error


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 70),
    st.integers(0, 70),
    st.sampled_from([0, 1, 7, 64, 300, 600]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 5),
)
def test_leaf_adds_the_product_for_every_layout(m, n, k, trans_a, trans_b, slack):
    a, b, c = normal(m, k), normal(k, n), normal(m, n + slack)
    a_flat = (a.T if trans_a else a).ravel()
    b_flat = (b.T if trans_b else b).ravel()
    a_strides = (1, m) if trans_a else (k, 1)
    b_strides = (1, k) if trans_b else (n, 1)
    want = c.astype(np.float64)
    want[:, :n] += a.astype(np.float64) @ b
    got = c.copy()
    leaf(m, n, k, a_flat, *a_strides, b_flat, *b_strides, got.reshape(-1), n + slack)
    assert_close(got, want, k + 1)
    np.testing.assert_array_equal(got[:, n:], c[:, n:])


@pytest.mark.parametrize("rows", range(1, ROWS + 1))
@pytest.mark.parametrize("old", [0, 1])
def test_outer_tile_has_every_height(rows, old):
    a, b, c = normal(rows, 33), normal(33, COLS), normal(rows, COLS + 3)
    got = c.copy()
    outer(rows, 33, np.ascontiguousarray(a.T).ravel(), b.ravel(), got, COLS + 3, old)
    assert_close(got[:, :COLS], a.astype(np.float64) @ b + old * c[:, :COLS], 34)
    np.testing.assert_array_equal(got[:, COLS:], c[:, COLS:])


@pytest.mark.parametrize("k", [WIDTH, WIDTH + 1, 3 * WIDTH - 1, 100 * WIDTH + 5])
@pytest.mark.parametrize(("rows", "cols"), [(DOT_ROWS, DOT_COLS), (1, 1), (2, DOT_COLS)])
def test_dot_tile_counts_each_element_once(k, rows, cols):
    a, b, tile = normal(rows, k), normal(cols, k), np.empty(DOT_FLOATS, np.float32)
    dot(rows, cols, k, a.ravel(), k, b.ravel(), k, tile)
    got = tile[: DOT_ROWS * DOT_COLS].reshape(DOT_ROWS, DOT_COLS)
    assert_close(got[:rows, :cols], a.astype(np.float64) @ b.T, k)


def test_dot_tile_does_not_let_masked_elements_in():
    k = WIDTH + 1
    a, b, tile = normal(1, k), normal(1, k), np.empty(DOT_FLOATS, np.float32)
    a[0, 0] = np.inf
    dot(1, 1, k, a.ravel(), k, b.ravel(), k, tile)
    assert tile[0] == np.inf * b[0, 0]


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_dot_lines_gathers_its_pieces_and_leaves_out_what_is_masked(kind):
    parts, steps = (2 if kind == 2 else 1), 6
    size = WIDTH // parts
    rng = np.random.default_rng(1)
    pieces = rng.integers(0, 400, steps * parts)
    starts = rng.integers(0, 100, DOT_COLS)
    masks = rng.integers(0, 1 << WIDTH, steps)
    a, b = normal(DOT_ROWS, steps * WIDTH), normal(600)
    kept = (masks[:, None] >> np.arange(WIDTH) & 1).astype(bool).ravel() | (kind == 0)
    places = (starts[:, None, None] + pieces[:, None] + np.arange(size)).reshape(DOT_COLS, -1)
    right = np.where(kept, b[places], 0)
    spoiled = b.copy()
    spoiled[np.setdiff1d(np.arange(600), places[:, kept])] = np.nan
    tile = np.empty(DOT_FLOATS, np.float32)
    lines(DOT_ROWS, steps, kind, a.ravel(), steps * WIDTH, spoiled, starts, pieces, masks, tile)
    want = a.astype(np.float64) @ right.T
    assert_close(tile[: DOT_ROWS * DOT_COLS].reshape(DOT_ROWS, DOT_COLS), want, steps * WIDTH)


@pytest.mark.parametrize("length", [1, 3, 7, WIDTH])
def test_pieces_fill_a_panel_side_by_side(length):
    lengths = [min(length, COLS - at) for at in range(0, COLS, length)]
    places = np.cumsum([0, *lengths[:-1]])
    rng = np.random.default_rng(2)
    offsets, sources = rng.integers(0, 300, 9), rng.integers(0, 100, len(lengths))
    images, panel = normal(500), np.empty(9 * COLS + WIDTH, np.float32)
    gather(len(lengths), 9, images, offsets, sources, places, panel)
    within = np.concatenate([s + np.arange(n) for s, n in zip(sources, lengths, strict=True)])
    np.testing.assert_array_equal(
        panel[: 9 * COLS].reshape(9, COLS), images[offsets[:, None] + within]
    )


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [1, WIDTH - 1, WIDTH, COLS - 1, COLS])
@pytest.mark.parametrize("k", [1, WIDTH, 2 * WIDTH + 3])
def test_columns_are_packed_with_zeros_behind_the_last(transposed, n, k):
    b, out = normal(k, n), np.empty(k * COLS, np.float32)
    stored = np.ascontiguousarray(b.T).ravel() if transposed else b.ravel()
    columns(stored, k, n, *((1, k) if transposed else (n, 1)), out)
    np.testing.assert_array_equal(out.reshape(k, COLS), np.pad(b, ((0, 0), (0, COLS - n))))
