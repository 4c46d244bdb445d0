"""Kernels on pieces against numpy's indexing."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from swcaffe.engine.host.pieces import dot_lines, pack_pieces
from swcaffe.kernels import COLS, DOT_COLS, DOT_FLOATS, DOT_ROWS, WIDTH

EPS = float(np.finfo(np.float32).eps)


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


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


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
    got = tile[: DOT_ROWS * DOT_COLS].reshape(DOT_ROWS, DOT_COLS)
    error = np.linalg.norm(got - want)
    assert error <= 4 * EPS * (steps * WIDTH) ** 0.5 * np.linalg.norm(want)


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
