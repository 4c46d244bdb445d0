"""Activations: formulas, kinks, in place, and learned slopes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import ParameterError, ShapeError

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
