"""Size classes, densities over time, clipping on each rank."""

from __future__ import annotations

import numpy as np
import pytest

from swcaffe.errors import ParameterError
from swcaffe.parallel.policy import DensitySchedule, SizeClasses, clip_locally


@pytest.mark.parametrize(
    ("shape", "quantised", "output", "name"),
    [
        ((4096,), False, False, "none"),
        ((1, 1, 1, 10**7), False, False, "none"),
        ((20, 1, 5, 5), False, False, "none"),
        ((127, 256), False, False, "none"),
        ((128, 256), False, False, "topk"),
        ((1024, 1023), False, False, "topk"),
        ((1024, 1024), False, False, "sampled"),
        ((1024, 1024), True, False, "asq"),
        ((1024, 1024), True, True, "sampled"),
    ],
)
def test_the_published_size_classes(shape, quantised, output, name):
    assert SizeClasses(quantised=quantised).choose(shape, is_output=output) == name


def test_the_geometric_warm_up_is_printed_as_sparsity():
    schedule = DensitySchedule.geometric(100)
    assert schedule.describe() == "sparsity 75, 93.75, 98.44, 99.61, 99.9 %, 100 iterations each"
    found = [schedule.density(i) for i in (0, 99, 100, 399, 400, 10**6)]
    assert found == [0.25, 0.25, 0.0625, 0.25**4, 0.001, 0.001]


def test_dense_first_then_the_final_density():
    schedule = DensitySchedule.dense_first(50, 0.01)
    assert [schedule.density(i) for i in (0, 49, 50)] == [1.0, 1.0, 0.01]
    assert DensitySchedule(0.02).density(0) == 0.02


def test_a_density_outside_the_range_is_refused():
    with pytest.raises(ParameterError, match=r"density 1\.5 in the schedule"):
        DensitySchedule(0.001, (1.5,), 10)


@pytest.mark.parametrize("size", [1, 4])
def test_local_clipping_leaves_a_joint_norm_of_threshold_by_root_n(size):
    gradients = [np.full(9, 2, np.float32), np.full(16, 3, np.float32)]
    expected = np.sqrt(9 * 4 + 16 * 9)
    assert clip_locally(gradients, 5.0, size) == pytest.approx(expected)
    joint = np.sqrt(sum(float((g.astype(float) ** 2).sum()) for g in gradients))
    assert joint == pytest.approx(5.0 / np.sqrt(size), rel=1e-6)
    assert gradients[1][0] / gradients[0][0] == pytest.approx(1.5)


def test_local_clipping_leaves_small_gradients_alone():
    gradient = np.ones(4, np.float32)
    assert clip_locally([gradient], 5.0, 4) == 2
    np.testing.assert_array_equal(gradient, 1)
