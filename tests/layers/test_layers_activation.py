"""Activations: formulas, kinks, in place, and learned slopes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import NetError, ParameterError, ShapeError

FORMULAS = {
    ("ReLU", ""): lambda x: np.maximum(x, 0),
    ("ReLU", "relu_param { negative_slope: 0.1 }"): lambda x: np.where(x > 0, x, 0.1 * x),
    ("Sigmoid", ""): lambda x: 1 / (1 + np.exp(-x)),
    ("TanH", ""): np.tanh,
    ("ELU", ""): lambda x: np.where(x > 0, x, np.expm1(x)),
    ("ELU", "elu_param { alpha: 0.5 }"): lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)),
}


@pytest.mark.parametrize(("kind", "params"), FORMULAS)
def test_activation_matches_its_formula(kind: str, params: str, engine: Engine, rng) -> None:
    check_layer(
        kind,
        params,
        [rng.normal(size=(2, 3, 4))],
        expected=FORMULAS[kind, params],
        engine=engine,
        kink=0.0,
        in_place=True,
    )


@pytest.mark.parametrize("kind", ["ReLU", "Sigmoid", "TanH", "ELU"])
def test_extreme_values_stay_finite(kind: str, engine: Engine) -> None:
    x = np.array([-1e30, -200, -0.0, 0, 200, 1e30], np.float32)
    one = OneLayer(layer_text(kind, "", 1), [x], engine)
    y = one.forward()[0]
    diff = one.backward([np.ones(6)])[0]
    assert np.isfinite(y).all()
    assert np.isfinite(diff).all()
    assert (np.diff(y) >= 0).all()


def test_the_slope_at_zero_is_the_negative_one(engine: Engine) -> None:
    text = layer_text("ReLU", "relu_param { negative_slope: 0.25 }", 1)
    one = OneLayer(text, [np.zeros(3)], engine)
    one.forward()
    assert one.backward([np.ones(3)])[0].tolist() == [0.25] * 3


def test_a_negative_slope_in_place_is_refused(reference_engine: Engine) -> None:
    text = layer_text("ReLU", "relu_param { negative_slope: -1 }", 1, in_place=True)
    with pytest.raises(ParameterError, match="slope or alpha -1 is negative: in place"):
        OneLayer(text, [np.zeros(3)], reference_engine)


@pytest.mark.parametrize("shared", [False, True])
def test_learned_slopes_match_their_formula(shared: bool, engine: Engine, rng) -> None:
    params = (
        f"prelu_param {{ channel_shared: {str(shared).lower()} "
        'filler { type: "uniform" min: 0.1 max: 0.9 } }'
    )
    x = rng.normal(size=(2, 3, 2, 2)).astype(np.float32)
    one = check_layer("PReLU", params, [x], engine=engine, kink=0.0, in_place=True)
    slope = one.layer.blobs[0].data
    assert slope.shape == (() if shared else (3,))
    slopes = slope if shared else slope[:, None, None]
    assert_near(one.forward(x)[0], np.where(x > 0, x, slopes * x))


def test_slopes_start_at_a_quarter(reference_engine: Engine) -> None:
    one = OneLayer(layer_text("PReLU", "", 1), [np.zeros((2, 3))], reference_engine)
    assert one.layer.blobs[0].data.tolist() == [0.25] * 3
    with pytest.raises(ShapeError, match="must have 3 channels"):
        one.feed([np.zeros((2, 4))])
    with pytest.raises(ShapeError, match="at least 2 axes"):
        OneLayer(layer_text("PReLU", "", 1), [np.zeros(3)], reference_engine)


SMOOTH = {
    ("BNLL", ""): lambda x: np.log1p(np.exp(x)),
    ("Exp", ""): np.exp,
    ("Exp", "exp_param { base: 2 scale: -0.5 shift: 1 }"): lambda x: 2.0 ** (1 - 0.5 * x),
    ("Log", "log_param { shift: 4 }"): lambda x: np.log(x + 4),
    ("Log", "log_param { base: 10 scale: 0.5 shift: 4 }"): lambda x: np.log10(0.5 * x + 4),
    ("Power", "power_param { power: 3 scale: 0.5 shift: -1 }"): lambda x: (0.5 * x - 1) ** 3,
    ("Power", "power_param { power: 0.5 shift: 4 }"): lambda x: np.sqrt(x + 4),
    ("Power", "power_param { scale: -2 }"): lambda x: -2 * x,
    ("Power", "power_param { power: 0 scale: 2 }"): np.ones_like,
    ("Power", "power_param { power: 2 scale: 0 shift: 3 }"): lambda x: np.full_like(x, 9),
    ("Swish", ""): lambda x: x / (1 + np.exp(-x)),
    ("Swish", "swish_param { beta: 2 }"): lambda x: x / (1 + np.exp(-2 * x)),
    ("AbsVal", ""): np.abs,
}


@pytest.mark.parametrize(("kind", "params"), SMOOTH)
def test_elementwise_function_matches_its_formula(kind: str, params: str, engine: Engine) -> None:
    x = np.linspace(-2, 2, 24).reshape(2, 3, 4)
    formula = SMOOTH[kind, params]
    check_layer(kind, params, [x], expected=formula, engine=engine, in_place=True)


def test_clip_bends_at_its_limits_where_the_gradient_still_passes(engine: Engine) -> None:
    params = "clip_param { min: -0.5 max: 1 }"
    x = np.array([-3, -0.5, 0, 1, 2], np.float32)
    one = check_layer(
        "Clip",
        params,
        [np.linspace(-2, 2, 8)],
        expected=lambda x: x.clip(-0.5, 1),
        engine=engine,
        in_place=True,
    )
    assert one.forward(x)[0].tolist() == [-0.5, -0.5, 0, 1, 1]
    assert one.backward([np.full(5, 2)])[0].tolist() == [0, 2, 2, 2, 0]


def test_slopes_at_and_beyond_the_ends_are_numbers(engine: Engine) -> None:
    x = np.array([-1e30, -200, -0.0, 0, 200, 1e30], np.float32)
    slopes = {
        "AbsVal": [-1, -1, 0, 0, 1, 1],
        "BNLL": [0, 0, 0.5, 0.5, 1, 1],
        "Swish": [0, 0, 0.5, 0.5, 1, 1],
        "Power": [0, 0, 3, 3, 0, 0],
    }
    for kind, slope in slopes.items():
        params = "power_param { power: 3 shift: 1 }" if kind == "Power" else ""
        here = np.array([-1, -1, 0, 0, -1, -1], np.float32) if kind == "Power" else x
        one = OneLayer(layer_text(kind, params, 1), [here], engine)
        assert np.isfinite(one.forward()[0]).all()
        assert one.backward([np.ones(6)])[0].tolist() == slope, kind


def test_a_gradient_that_is_not_finite_stays_out_of_where_the_slope_is_0(engine: Engine) -> None:
    one = OneLayer(layer_text("Clip", "clip_param { min: 0 max: 1 }", 1), [[-1.0, 0.5]], engine)
    one.forward()
    assert one.backward([[np.inf, 1]])[0].tolist() == [0, 1]


def test_a_third_power_has_slope_0_at_0_where_caffe_gives_none(engine: Engine) -> None:
    one = OneLayer(layer_text("Power", "power_param { power: 3 }", 1), [[0.0, 2.0]], engine)
    one.forward()
    assert one.backward([[1, 1]])[0].tolist() == [0, 12]


def test_threshold_is_strict_and_has_no_gradient(engine: Engine) -> None:
    text = layer_text("Threshold", "threshold_param { threshold: 0.5 }", 1)
    one = OneLayer(text, [[0.4, 0.5, 0.6]], engine)
    assert one.forward()[0].tolist() == [0, 0, 1]
    one.backward(flags=[False])
    with pytest.raises(NetError, match="has no gradient, but its bottom"):
        one.backward([np.ones(3)])


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("Exp", "exp_param { base: 0 }", "base 0 must be positive"),
        ("Log", "log_param { base: -2 }", "base -2 must be positive"),
        ("Log", "log_param { base: 1 }", "base 1 has no logarithms"),
        ("Clip", "", "min and max missing"),
        ("Clip", "clip_param { min: 2 max: 1 }", "min 2 is greater than max 1"),
    ],
)
def test_a_function_without_meaning_is_refused(
    kind: str, params: str, message: str, reference_engine: Engine
) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        OneLayer(layer_text(kind, params, 1), [np.zeros(3)], reference_engine)
    assert caught.value.fix
