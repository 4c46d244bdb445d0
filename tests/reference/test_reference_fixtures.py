"""The recorded arrays themselves: complete, finite, and where a rule is short, true to the rule."""

from __future__ import annotations

import numpy as np
import pytest
from reference.digest import digest, distance
from reference.load import Case, cases, training, trainings, types
from reference.pictures import colour, datum, digits, grey

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


@pytest.mark.parametrize("name", trainings())
def test_rounding_alone_cannot_explain_a_failed_training_comparison(name: str):
    """Within 50 iterations 1e-3 in the loss, within 10 iterations 1e-4 in every blob."""
    recorded = training(name)
    assert recorded.losses_spread[:50].max() < 1e-3
    assert max(recorded.spreads[10].values()) < 1e-4
    assert recorded.losses[-1] < 0.9 * recorded.losses[0]
    assert set(recorded.digests) == ({1, 10, 50, 100} if name.startswith("lenet") else {1, 10, 50})


def test_every_solver_is_recorded_for_both_nets():
    kinds = ("AdaDelta", "AdaGrad", "Adam", "Nesterov", "RMSProp", "SGD")
    assert trainings() == [f"{net}_{kind}" for net in ("cifar10_quick", "lenet") for kind in kinds]


def test_the_digest_of_whole_recorded_blobs_is_the_recorded_digest():
    recorded = training("cifar10_quick_SGD")
    for name, values in recorded.values[10].items():
        found = digest(name, values)
        assert found.norm == pytest.approx(recorded.digests[10][name].norm, rel=1e-12)
        np.testing.assert_allclose(found.samples, recorded.digests[10][name].samples)
        np.testing.assert_allclose(
            found.projections, recorded.digests[10][name].projections, rtol=1e-9
        )


def test_the_distance_of_digests_estimates_the_distance_of_blobs():
    rng = np.random.default_rng(3)
    blob = rng.normal(size=(50, 40))
    for size in (1e-5, 1e-3, 1e-1):
        other = blob + size * rng.normal(size=blob.shape)
        exact = np.linalg.norm(other - blob) / np.linalg.norm(blob)
        assert distance(digest("b", other), digest("b", blob)) == pytest.approx(exact, rel=0.4)


def test_digits_are_the_published_ones():
    images, numbers = digits()
    assert images.shape == (1797, 8, 8)
    assert images.mean() == pytest.approx(4.884164, abs=1e-6)
    assert numbers[:10].tolist() == list(range(10))


def test_pictures_have_the_sizes_of_the_nets_and_no_value_overflows():
    images, _ = digits()
    large = grey(images[:3]).astype(int)
    assert large.shape == (3, 1, 28, 28)
    assert large[2, 0, 9, 15] == 15 * int(images[2, 2, 4]) + (7 * 9 + 11 * 15 + 3 * 135 + 58) % 16
    assert large[0, 0, 1, 27] == (7 + 11 * 27 + 3 * 27) % 16
    small = colour(images[:2]).astype(int)
    assert small.shape == (2, 3, 32, 32)
    assert small[1, 2, 5, 9] == abs(int(images[1, 1, 2]) - int(images[1, 1, 1])) * 11 + (
        (15 * 5 + 15 * 9 + 3 * 45 + 29) % 64
    )


def test_a_hand_written_datum_starts_as_the_ones_caffe_writes():
    data = datum(np.zeros((1, 28, 28), dtype=np.uint8), 7)
    assert data.startswith(bytes.fromhex("0801101c181c2290"))
    assert data.endswith(b"\x28\x07")
