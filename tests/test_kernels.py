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
    dot_tile,
    outer_tile,
    pack_cols,
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


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [1, WIDTH - 1, WIDTH, COLS - 1, COLS])
@pytest.mark.parametrize("k", [1, WIDTH, 2 * WIDTH + 3])
def test_columns_are_packed_with_zeros_behind_the_last(transposed, n, k):
    b, out = normal(k, n), np.empty(k * COLS, np.float32)
    stored = np.ascontiguousarray(b.T).ravel() if transposed else b.ravel()
    columns(stored, k, n, *((1, k) if transposed else (n, 1)), out)
    np.testing.assert_array_equal(out.reshape(k, COLS), np.pad(b, ((0, 0), (0, COLS - n))))
