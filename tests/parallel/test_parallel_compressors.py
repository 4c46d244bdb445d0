"""Compressors: the common battery, then what each of them promises."""

from __future__ import annotations

import numpy as np
import pytest
from compressor_battery import COUNT, SHAPE, alone, check_compressor, feed_back, gradients
from hypothesis import given, settings
from hypothesis import strategies as st

from swcaffe.errors import NumericsError, ParallelError, ParameterError, SnapshotError
from swcaffe.parallel.compressors import COMPRESSORS
from swcaffe.parallel.residual import Residual
from swcaffe.parallel.selection import (
    binary_search,
    sampled_threshold,
    top_k,
    trimmed,
)

SPARSE = ["topk", "threshold", "sampled"]


def make(name, density=0.01):
    compressor = COMPRESSORS.get(name)(density)
    return compressor, compressor.new_state(SHAPE, "w")


@pytest.mark.parametrize("name", list(COMPRESSORS))
def test_battery(name):
    check_compressor(name)


def largest_by_sorting(flat, k, sign=0):
    keys = np.abs(flat) if sign == 0 else sign * flat
    order = np.lexsort((np.arange(flat.size), -keys))[:k]
    if sign:
        order = order[keys[order] > 0]
    return np.sort(order)


@settings(deadline=None, max_examples=80)
@given(st.integers(1, 3000), st.floats(0.001, 1), st.integers(0, 5), st.sampled_from([0, 1, -1]))
def test_exact_selections_equal_sorting_with_ties_to_the_lowest_index(count, density, seed, sign):
    flat = np.random.default_rng(seed).integers(-6, 7, count).astype(np.float32)
    if seed % 2:
        flat = gradients(seed=seed, count=count)[0]
    k = max(1, int(count * density))
    want = largest_by_sorting(flat, k, sign)
    for select in (trimmed, top_k):
        np.testing.assert_array_equal(select(flat, k, sign=sign), want)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 20, 300])
def test_binary_search_sends_k_to_2k(seed, k):
    flat = gradients(seed=seed)[0]
    places = binary_search(flat, k)
    assert k <= places.size < 2 * k or places.size == k
    np.testing.assert_array_equal(places, largest_by_sorting(flat, places.size))


@pytest.mark.parametrize("name", SPARSE)
def test_a_constant_gradient_still_sends_exactly_k_from_the_start(name):
    compressor, state = make(name)
    _, places = alone(compressor, np.ones(COUNT, np.float32), state)
    np.testing.assert_array_equal(places, np.arange(20))


def test_sampled_threshold_sends_between_0_8_and_1_3_k_while_gradients_drift():
    compressor, state = make("sampled", 0.01)
    for i, flat in enumerate(gradients(20, count=200_000)):
        _, places = alone(compressor, flat * np.float32(1.05**i), state)
        assert 1600 <= places.size <= 2600


@pytest.mark.parametrize("k", [1, 50, 1000])
def test_about_k_elements_lie_above_a_sampled_threshold(k):
    flat = gradients(count=200_000)[0]
    above = np.count_nonzero(np.abs(flat) > sampled_threshold(flat, k))
    assert 0.7 * k <= above + 1 and above <= 1.4 * k + 1


@pytest.mark.parametrize("name", ["topk", "threshold", "sampled", "randomk"])
def test_density_one_sends_the_gradient_itself(name):
    flat = gradients()[0]
    compressor, state = make(name, 1.0)
    total, _ = alone(compressor, flat, state)
    np.testing.assert_array_equal(total, flat)


def test_random_k_draws_the_same_places_on_all_ranks_and_others_next_time():
    compressor, one = make("randomk")
    other = compressor.new_state(SHAPE, "w")
    draws = []
    for a, b in zip(gradients(3), gradients(3, seed=9), strict=True):
        places = alone(compressor, a, one)[1]
        np.testing.assert_array_equal(places, alone(compressor, b, other)[1])
        draws.append(places.tobytes())
    assert len(set(draws)) == 3


def test_alternating_sign_sends_one_mean_of_one_sign_in_turn():
    flat = gradients()[0]
    compressor, state = make("asq")
    for turn in range(4):
        total, places = alone(compressor, flat, state)
        sign = -1 if turn % 2 else 1
        np.testing.assert_array_equal(places, largest_by_sorting(flat, 20, sign))
        np.testing.assert_allclose(total[places], flat[places].mean(), rtol=1e-6)
    message = compressor.encode(flat, state)
    assert message.nbytes == 16 + 20 * 4 + 4


@pytest.mark.parametrize("value", [1e5, -1e-8, 3e38, 1e-44])
def test_fp16_neither_overflows_nor_loses_small_gradients(value):
    compressor, state = make("fp16")
    flat = np.full(COUNT, value, np.float32)
    flat[:1024] = 1.0
    total, _ = alone(compressor, flat, state)
    np.testing.assert_allclose(total, flat, rtol=2**-11)


def test_fp16_keeps_what_it_cannot_say_beside_a_large_value():
    compressor, _ = make("fp16")
    residual = Residual("w", (2,), compressor)
    for _ in range(3):
        feed_back(residual, np.array([1e5, 1e-8], np.float32))
    np.testing.assert_allclose(residual.left[1], 3e-8, rtol=1e-6)


def test_fp16_refuses_sums_beyond_float32_and_keeps_the_residual_finite():
    compressor, state = make("fp16")
    flat, total, sent = (np.full(COUNT, 3e38, np.float32) for _ in range(3))
    steps = compressor.steps(flat, state, total, sent)
    bounds = next(steps)
    with np.errstate(over="ignore"):
        bounds *= 2  # what two ranks would have
    with pytest.raises(NumericsError, match="beyond float32"):
        next(steps)


def test_one_bit_keeps_the_sum_of_each_side():
    flat = gradients()[0]
    total, _ = alone(*make("sign")[:1], flat, {})
    for side in (flat > 0, flat <= 0):
        np.testing.assert_allclose(total[side].sum(), flat[side].sum(), rtol=1e-4)


def test_power_sgd_finds_a_matrix_of_its_rank():
    rng = np.random.default_rng(0)
    exact = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 50))
    compressor, state = make("powersgd")
    total, _ = alone(compressor, exact.astype(np.float32).reshape(-1), state)
    assert np.linalg.norm(total - exact.reshape(-1)) < 1e-4 * np.linalg.norm(exact)


def test_power_sgd_survives_a_gradient_of_zeros():
    compressor, state = make("powersgd")
    alone(compressor, np.zeros(COUNT, np.float32), state)
    total, _ = alone(compressor, gradients()[0], state)
    assert total.any()


@pytest.mark.parametrize("name", ["topk", "threshold"])
def test_error_feedback_of_a_constant_gradient_sends_every_element_in_time(name):
    """Sent total + residual = n g at every element, and none waits for ever."""
    gradient = np.linspace(1, 3, 500, dtype=np.float32)
    residual = Residual("w", (500,), COMPRESSORS.get(name)(0.01))
    sent = np.zeros(500)
    for n in range(1, 401):
        sent += feed_back(residual, gradient)
        np.testing.assert_allclose(sent + residual.left, n * gradient.astype(float), rtol=1e-5)
    assert (sent > 0).all()


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_correction_sending_all_walks_the_path_of_plain_momentum(nesterov):
    residual = Residual(
        "w", (6,), COMPRESSORS.get("topk")(1.0), momentum=0.9, nesterov=nesterov, masking=False
    )
    velocity = np.zeros(6)
    for gradient in gradients(20, count=6):
        velocity = 0.9 * velocity + gradient
        step = 0.9 * velocity + gradient if nesterov else velocity
        np.testing.assert_allclose(feed_back(residual, gradient), step, rtol=1e-5, atol=1e-6)


def test_factor_masking_stops_the_velocity_of_what_was_sent_only():
    residual = Residual("w", (4,), COMPRESSORS.get("topk")(0.25), momentum=0.9)
    feed_back(residual, np.array([1, -5, 2, 3], np.float32))
    np.testing.assert_array_equal(residual.velocity, [1, 0, 2, 3])
    np.testing.assert_array_equal(residual.left, [1, 0, 2, 3])


@pytest.mark.parametrize("density", [0, -0.1, 1.5])
def test_a_density_out_of_range_is_refused(density):
    with pytest.raises(ParameterError, match="0 < density <= 1"):
        COMPRESSORS.get("topk")(density)


@pytest.mark.parametrize(
    ("indices", "values"),
    [([5, 4], [1, 1]), ([4, 4], [1, 1]), ([4, COUNT], [1, 1]), ([4, 5], [1, np.nan])],
)
def test_wrong_indices_and_values_are_refused_before_anything_is_written(indices, values):
    compressor, state = make("topk", 0.001)
    message = compressor.encode(gradients()[0], state)
    message[16:24] = np.array(indices, np.uint32).view(np.uint8)
    message[24:32] = np.array(values, np.float32).view(np.uint8)
    out = np.zeros(COUNT, np.float32)
    with pytest.raises(ParallelError, match="malformed gradient message"):
        compressor.decode(message, out)
    assert not out.any()


def test_a_state_of_another_compressor_or_tensor_is_refused_by_name():
    ours = Residual("ip1", (4,), COMPRESSORS.get("sampled")(0.25))
    theirs = Residual("ip1", (4,), COMPRESSORS.get("topk")(0.25))
    with pytest.raises(SnapshotError, match=r"ip1: compressor/age is missing, expected \(\)"):
        ours.load_state(theirs.state())
    longer = Residual("ip1", (5,), COMPRESSORS.get("sampled")(0.25))
    with pytest.raises(SnapshotError, match=r"ip1: left is \(5,\), expected \(4,\)"):
        ours.load_state(longer.state())
