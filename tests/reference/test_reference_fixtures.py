"""The recorded arrays themselves: complete, finite, and where a rule is short, true to the rule."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference.load import Case, cases, types

ALL = [case for kind in types() for case in cases(kind)]
BATCH_NORM = [
    case
    for case in cases("BatchNorm")
    if "use_global_stats: false" in case.prototxt
    or (case.phase == "TRAIN" and "use_global_stats: true" not in case.prototxt)
]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_every_step_is_complete_and_finite(case: Case):
    for step in case.steps:
        assert len(step.tops) == case.prototxt.count("\n  top:")
        assert len(step.bottoms) == case.prototxt.count("\n  bottom:")
        assert len(step.params_after) == len(case.params)
        if case.backward:
            assert len(step.top_diffs) == len(step.tops)
            assert len(step.bottom_diffs) == len(step.bottoms)
            assert len(step.param_diffs) == len(case.params)
        given = zip(step.bottoms, step.bottom_diffs, strict=False)
        assert all(diff is None or diff.shape == bottom.shape for bottom, diff in given)
        arrays = [*step.tops, *step.top_diffs, *step.param_diffs, *step.params_after]
        arrays += [diff for diff in step.bottom_diffs if diff is not None]
        assert all(array.dtype == np.float32 and np.isfinite(array).all() for array in arrays)


@pytest.mark.parametrize("case", BATCH_NORM, ids=str)
def test_batch_norm_in_batch_mode_follows_the_published_rule(case: Case):
    eps = 0.1 if "eps: 0.1" in case.prototxt else 1e-5
    fraction = 0.5 if "fraction: 0.5" in case.prototxt else 0.999
    stats = [param.astype(np.float64) for param in case.params]
    for step in case.steps:
        x, dy = (array.astype(np.float64) for array in (step.bottoms[0], step.top_diffs[0]))
        axes = (0, *range(2, x.ndim))
        m = x.size // x.shape[1]

        def mean(values: np.ndarray, axes: tuple[int, ...] = axes) -> np.ndarray:
            return values.mean(axes, keepdims=True)

        factor = (mean((x - mean(x)) ** 2) + eps) ** -0.5
        y = (x - mean(x)) * factor
        dx = (dy - mean(dy) - y * mean(dy * y)) * factor
        np.testing.assert_allclose(step.tops[0], y, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(step.bottom_diffs[0], dx, rtol=1e-5, atol=1e-6)
        unbiased = x.var(axes) * (m / (m - 1) if m > 1 else 1)
        updates = (x.mean(axes), unbiased, np.ones(1))
        for i, update in enumerate(updates):
            stats[i] = fraction * stats[i] + update
            np.testing.assert_allclose(step.params_after[i], stats[i], rtol=1e-5, atol=1e-6)


def test_a_one_dimensional_convolution_is_a_sliding_product():
    case = next(case for case in cases("Convolution") if case.name == "one_dimension")
    (x,), (weight, bias) = case.steps[0].bottoms, case.params
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    columns = [padded[:, :, at : at + 3] for at in range(0, 9, 2)]
    expected = np.stack([np.einsum("nck,ock->no", c, weight) + bias for c in columns], axis=2)
    np.testing.assert_allclose(case.steps[0].tops[0], expected, rtol=1e-4, atol=1e-5)


def test_max_pooling_ties_go_to_the_first_maximum():
    case = next(case for case in cases("Pooling") if case.name == "max_ties")
    (x,), (dx,), (dy,) = (
        case.steps[0].bottoms,
        case.steps[0].bottom_diffs,
        case.steps[0].top_diffs,
    )
    expected = np.zeros_like(x)
    for n, c, i, j in np.ndindex(dy.shape):
        rows, columns = (
            range(max(0, 2 * i - 1), min(6, 2 * i + 2)),
            range(max(0, 2 * j - 1), min(6, 2 * j + 2)),
        )
        winner = max(((r, q) for r in rows for q in columns), key=lambda at: x[n, c, at[0], at[1]])
        expected[(n, c, *winner)] += dy[n, c, i, j]
    assert dx is not None
    np.testing.assert_allclose(dx, expected, rtol=1e-6)


def test_parameter_gradients_accumulate_over_passes():
    case = next(case for case in cases("Scale") if case.name == "accumulates")
    total = np.zeros(3)
    for step in case.steps:
        total += (step.bottoms[0] * step.top_diffs[0]).sum(axis=(0, 2, 3))
        np.testing.assert_allclose(step.param_diffs[0], total, rtol=1e-4, atol=1e-5)
