"""Fillers: rules, moments, streams, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.errors import ParameterError
from swcaffe.net.filler import constant, fill
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse
from swcaffe.streams import stream

SHAPE = (40, 30, 5, 5)
FAN_IN, FAN_OUT = 30 * 25, 40 * 25


def filled(text: str, shape: tuple[int, ...] = SHAPE, seed: int = 1) -> F32:
    out = aligned_zeros(shape)
    fill(parse(text, messages.FillerParameter).message, out, stream(seed, "filler"))
    return out


def close_moments(values: F32, mean: float, std: float, kurtosis: float) -> None:
    """Sample mean and standard deviation within four of their own standard errors."""
    n = values.size
    assert abs(values.mean(dtype=np.float64) - mean) <= 4 * std / math.sqrt(n)
    error = std * math.sqrt((kurtosis - 1) / (4 * n))
    assert abs(values.std(dtype=np.float64) - std) <= 4 * error


UNIFORM, NORMAL = 1.8, 3.0  # fourth moment over squared variance

MOMENTS = {
    'type: "uniform"': (0.5, math.sqrt(1 / 12), UNIFORM),
    'type: "uniform" min: -1 max: 3': (1, math.sqrt(16 / 12), UNIFORM),
    'type: "gaussian"': (0, 1, NORMAL),
    'type: "gaussian" mean: 2 std: 0.01': (2, 0.01, NORMAL),
    'type: "xavier"': (0, math.sqrt(1 / FAN_IN), UNIFORM),
    'type: "xavier" variance_norm: FAN_OUT': (0, math.sqrt(1 / FAN_OUT), UNIFORM),
    'type: "xavier" variance_norm: AVERAGE': (0, math.sqrt(2 / (FAN_IN + FAN_OUT)), UNIFORM),
    'type: "msra"': (0, math.sqrt(2 / FAN_IN), NORMAL),
    'type: "msra" variance_norm: FAN_OUT': (0, math.sqrt(2 / FAN_OUT), NORMAL),
}


@pytest.mark.parametrize("text", MOMENTS)
def test_moments_are_those_of_the_rule(text: str) -> None:
    close_moments(filled(text), *MOMENTS[text])


@pytest.mark.parametrize(
    ("text", "bound"),
    [('type: "uniform" min: -1 max: 3', 3), ('type: "xavier"', math.sqrt(3 / FAN_IN))],
)
def test_uniform_draws_reach_their_bounds_and_stay_within(text: str, bound: float) -> None:
    values = filled(text)
    assert 0.99 * bound <= values.max() <= bound * (1 + 1e-6)


def test_fan_out_of_a_vector_is_its_length_and_a_scalar_has_fans_of_one() -> None:
    vector = filled('type: "xavier" variance_norm: FAN_OUT', (10000,))
    close_moments(vector, 0, 0.01, UNIFORM)
    assert abs(filled('type: "xavier"', ()).item()) <= math.sqrt(3)


def test_fans_of_an_inner_product_are_inputs_and_outputs() -> None:
    close_moments(filled('type: "msra"', (50, 400)), 0, math.sqrt(2 / 400), NORMAL)
    close_moments(
        filled('type: "msra" variance_norm: FAN_OUT', (50, 400)), 0, math.sqrt(2 / 50), NORMAL
    )


def test_sparse_keeps_its_number_of_inputs_for_each_output() -> None:
    values = filled('type: "gaussian" sparse: 10', (50, 4000))
    kept = (values != 0).mean()
    assert abs(kept - 0.2) <= 4 * math.sqrt(0.2 * 0.8 / values.size)
    close_moments(values[values != 0], 0, 1, NORMAL)


def test_unit_ball_rows_are_positive_and_sum_to_one() -> None:
    values = filled('type: "positive_unitball"', (6, 3, 4))
    assert (values >= 0).all()
    assert np.allclose(values.sum(axis=(1, 2)), 1, atol=1e-6)


def test_constants_fill() -> None:
    assert (filled("value: 3") == 3).all()
    out = aligned_zeros((2,))
    fill(constant(0.25), out, stream(0, ""))
    assert out.tolist() == [0.25, 0.25]


def test_bilinear_kernels_are_tents() -> None:
    values = filled('type: "bilinear"', (2, 3, 4, 4))
    line = [0.25, 0.75, 0.75, 0.25]
    assert np.array_equal(values, np.broadcast_to(np.outer(line, line), values.shape))
    odd = filled('type: "bilinear"', (1, 1, 3, 3))[0, 0]
    assert np.allclose(odd, np.outer([0.5, 1, 0.5], [0.5, 1, 0.5]))


def test_values_are_a_function_of_the_seed() -> None:
    a, b, c = (filled('type: "xavier"', seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


BAD = {
    'type: "xaver"': ("unknown filler 'xaver'.*did you mean 'xavier'", (2, 2)),
    'type: "uniform" min: 2 max: 1': ("min 2 is above max 1", (2, 2)),
    'type: "gaussian" std: 0': ("std 0 must be above 0", (2, 2)),
    'type: "gaussian" sparse: -3': ("sparse -3", (2, 2)),
    'type: "xavier" sparse: 2': ("cannot be sparse", (2, 2)),
    'type: "bilinear"': ("square kernel", (2, 2)),
    'type: "bilinear" ': ("square kernel", (1, 1, 2, 3)),
    'type: "constant"': ("no weights to fill", (0, 3)),
}


@pytest.mark.parametrize("text", BAD)
def test_wrong_fillers_are_refused(text: str) -> None:
    message, shape = BAD[text]
    with pytest.raises(ParameterError, match=message):
        filled(text, shape)
