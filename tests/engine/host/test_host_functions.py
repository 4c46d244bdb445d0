"""Vectorised functions against double precision, in units of the last place."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from swcaffe.engine.host.functions import exp, tanh


@njit
def every(values, which, out):
    for i in range(len(values)):
        out[i] = exp(values[i]) if which == 0 else tanh(values[i])


def apply(which: int, values: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    every(values, which, out)
    return out


def spread() -> np.ndarray:
    """Arguments of every size, both signs."""
    sizes = np.logspace(-30, 1.94, 40001)
    return np.concatenate([-sizes, sizes]).astype(np.float32)


@pytest.mark.parametrize(("which", "exact"), [(0, np.exp), (1, np.tanh)])
def test_error_is_at_most_two_units_in_the_last_place(which, exact):
    values = spread()
    want = exact(values.astype(np.float64))
    ulp = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    assert (np.abs(apply(which, values) - want) / ulp).max() <= 2


def test_limits_and_nan():
    values = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    assert np.isnan(apply(0, values)[2]) and np.isnan(apply(1, values)[2])
    assert apply(1, values)[[0, 1, 3]].tolist() == [1, -1, 0]
    assert apply(0, values)[[0, 1, 3]].tolist() == [np.inf, 0, 1]


def test_small_exponentials_are_subnormal_before_they_are_zero():
    values = np.linspace(-110, -87, 2001).astype(np.float32)
    got, want = apply(0, values), np.exp(values.astype(np.float64))
    step = float(np.finfo(np.float32).smallest_subnormal)
    assert (np.abs(got - want) <= np.maximum(step, 3e-7 * want)).all()
    assert got[0] == 0 and got[1000] > 0
