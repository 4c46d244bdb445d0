"""LRN, MVN, BatchNorm, Scale, Bias, Dropout, Softmax."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.net.layer import LAYERS, Phase


def lrn_by_loops(x, size, alpha, beta, k, within):
    y, half = np.zeros_like(x), size // 2
    for n, c, h, w in np.ndindex(*x.shape):
        if within:
            rows, cols = (
                slice(max(h - half, 0), h + half + 1),
                slice(max(w - half, 0), w + half + 1),
            )
            mean = (x[n, c, rows, cols] ** 2).sum() / size**2
            y[n, c, h, w] = x[n, c, h, w] * (1 + alpha * mean) ** -beta
        else:
            around = x[n, max(c - half, 0) : c + half + 1, h, w]
            y[n, c, h, w] = x[n, c, h, w] * (k + alpha / size * (around**2).sum()) ** -beta
    return y


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("size", [1, 3, 5])
def test_lrn_matches_loops(within: bool, size: int, engine: Engine, rng) -> None:
    region = "WITHIN_CHANNEL" if within else "ACROSS_CHANNELS"
    params = f"lrn_param {{ local_size: {size} alpha: 0.7 beta: 0.6 k: 2 norm_region: {region} }}"
    check_layer(
        "LRN",
        params,
        [rng.normal(size=(2, 4, 3, 4))],
        expected=lambda x: lrn_by_loops(x, size, 0.7, 0.6, 2, within),
        engine=engine,
    )


def test_lrn_refuses_even_sizes_other_axes_and_working_in_place(reference_engine: Engine) -> None:
    with pytest.raises(ParameterError, match="local_size 4 must be odd"):
        OneLayer(
            layer_text("LRN", "lrn_param { local_size: 4 }", 1),
            [np.zeros((1, 1, 1, 1))],
            reference_engine,
        )
    with pytest.raises(ShapeError, match="4 axes"):
        OneLayer(layer_text("LRN", "", 1), [np.zeros((2, 2))], reference_engine)
    assert not LAYERS.get("LRN").in_place
    assert not LAYERS.get("Eltwise").in_place


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 2, 3), (2, 3, 4, 1, 2)])
def test_mvn_standardises_planes_or_whole_images(
    across: bool, scaled: bool, shape: tuple[int, ...], engine: Engine, rng
) -> None:
    axes = tuple(range(1 if across else 2, len(shape)))

    def expected(x):
        centred = x - x.mean(axes, keepdims=True)
        return centred / (x.std(axes, keepdims=True) + 1e-4) if scaled else centred

    check_layer(
        "MVN",
        f"mvn_param {{ across_channels: {str(across).lower()} "
        f"normalize_variance: {str(scaled).lower()} eps: 1e-4 }}",
        [rng.normal(loc=0.5, scale=2, size=shape)],
        expected=expected,
        engine=engine,
        in_place=True,
    )


def test_mvn_gives_four_axes_and_wants_two(reference_engine: Engine) -> None:
    one = OneLayer(layer_text("MVN", "", 1), [np.full((2, 3), 7.0)], reference_engine)
    assert one.forward()[0].tolist() == np.zeros((2, 3, 1, 1)).tolist()
    assert one.forward(np.zeros((0, 3, 2)))[0].shape == (0, 3, 2, 1)
    assert one.backward([np.zeros((0, 3, 2, 1))])[0].shape == (0, 3, 2)
    with pytest.raises(ShapeError, match="at least 2 axes"):
        OneLayer(layer_text("MVN", "", 1), [np.zeros(3)], reference_engine)


def normalise(x, eps=1e-5):
    axes = (0, *range(2, x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 4), (2, 3, 3, 2)])
def test_batch_norm_matches_its_formula(shape: tuple[int, ...], engine: Engine, rng) -> None:
    x = rng.normal(loc=0.5, scale=2, size=shape)
    check_layer(
        "BatchNorm",
        "batch_norm_param { moving_average_fraction: 0.9 }",
        [x],
        expected=normalise,
        engine=engine,
        in_place=True,
    )


def test_running_statistics_are_sums_that_testing_divides(engine: Engine) -> None:
    x = np.array([[[1.0]], [[3.0]]])
    train = OneLayer(layer_text("BatchNorm", "", 1), [x], engine)
    assert_near(train.forward()[0].reshape(-1), [-0.999995, 0.999995], 1e-6)
    assert [blob.data.tolist() for blob in train.layer.blobs] == [[2], [2], [1]]
    test = OneLayer(layer_text("BatchNorm", "", 1), [x], engine, phase=Phase.TEST)
    for ours, theirs in zip(test.layer.blobs, train.layer.blobs, strict=True):
        ours.share_data(theirs)
    assert_near(test.forward()[0].reshape(-1), [-0.707105, 0.707105], 1e-6)
    assert train.layer.blobs[2].data[0] == 1


def test_a_batch_of_nothing_leaves_the_running_statistics_alone(engine: Engine) -> None:
    one = OneLayer(layer_text("BatchNorm", "", 1), [np.array([[1.0], [3.0]])], engine)
    one.forward()
    before = [blob.data.tolist() for blob in one.layer.blobs]
    assert one.forward(np.zeros((0, 1)))[0].shape == (0, 1)
    one.backward([np.zeros((0, 1))])
    assert [blob.data.tolist() for blob in one.layer.blobs] == before == [[2], [2], [1]]


def test_untrained_statistics_divide_by_the_root_of_eps(engine: Engine) -> None:
    test = OneLayer(layer_text("BatchNorm", "", 1), [np.ones((1, 1))], engine, phase=Phase.TEST)
    assert_near(test.forward()[0].item(), 1 / np.sqrt(1e-5), 1e-6)


def test_testing_does_not_depend_on_the_batch_unless_asked_to_and_then_warns(
    engine: Engine, rng, caplog: pytest.LogCaptureFixture
) -> None:
    x = rng.normal(size=(8, 2, 3)).astype(np.float32)
    outputs = {}
    for text in ("", "batch_norm_param { use_global_stats: false }"):
        with caplog.at_level(logging.WARNING, "swcaffe"):
            one = OneLayer(layer_text("BatchNorm", text, 1), [x], engine, phase=Phase.TEST)
        for blob, value in zip(one.layer.blobs, (0.3, 2.0, 1.5), strict=True):
            blob.data[...] = value
        outputs[text] = np.array_equal(one.forward(x)[0][:1], one.forward(x[:1])[0])
    assert list(outputs.values()) == [True, False]
    assert len(caplog.records) == 1
    assert "use_global_stats is false in TEST" in caplog.text


def test_running_statistics_may_not_learn(reference_engine: Engine) -> None:
    x = np.zeros((2, 3))
    one = OneLayer(layer_text("BatchNorm", "", 1), [x], reference_engine)
    assert [spec.lr_mult for spec in one.param.param] == [0, 0, 0]
    with pytest.raises(ParameterError, match="param entry 1 has lr_mult 1"):
        OneLayer(layer_text("BatchNorm", "param { lr_mult: 0 } param {}", 1), [x], reference_engine)
    with pytest.raises(ShapeError, match="must have 3 channels"):
        one.feed([np.zeros((2, 4))])
    with pytest.raises(ShapeError, match="at least 2 axes"):
        OneLayer(layer_text("BatchNorm", "", 1), [np.zeros(3)], reference_engine)


SCALES = {
    "": (1, (3,)),
    "axis: 0 num_axes: 2": (0, (2, 3)),
    "num_axes: -1": (1, (3, 4)),
    "axis: -1": (2, (4,)),
    "num_axes: 0": (0, ()),
}


@pytest.mark.parametrize("text", SCALES)
@pytest.mark.parametrize("bias", [False, True])
def test_learned_scale_matches_numpy(text: str, bias: bool, engine: Engine, rng) -> None:
    axis, shape = SCALES[text]
    fill = 'filler { type: "gaussian" } bias_filler { type: "gaussian" }'
    params = f"scale_param {{ {text} bias_term: {str(bias).lower()} {fill} }}"
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    batch = None if axis == 0 and shape else 0
    one = check_layer("Scale", params, [x], engine=engine, in_place=True, batch_axis=batch)
    wide = (*shape, *(1 for _ in range(3 - axis - len(shape)))) if shape else ()
    parts = [blob.data.reshape(wide).astype(np.float64) for blob in one.layer.blobs]
    assert [blob.shape for blob in one.layer.blobs] == [shape] * (1 + bias)
    assert_near(one.forward(x)[0], x * parts[0] + (parts[1] if bias else 0))


@pytest.mark.parametrize("kind", ["Scale", "Bias"])
def test_a_second_bottom_is_laid_over_the_axes_from_axis_on(kind: str, engine: Engine, rng) -> None:
    x, s = rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 4))
    check_layer(
        kind,
        "",
        [x, s],
        expected=lambda x, s: x * s if kind == "Scale" else x + s,
        engine=engine,
        batch_axis=None,
        in_place=True,
    )


def test_a_scale_from_below_may_have_a_learned_bias(engine: Engine, rng) -> None:
    x, s = rng.normal(size=(2, 3, 4)), rng.normal(size=3)
    one = check_layer(
        "Scale",
        'scale_param { bias_term: true bias_filler { type: "constant" value: 0.5 } }',
        [x, s],
        expected=lambda x, s: x * s[:, None] + 0.5,
        engine=engine,
        batch_axis=None,
    )
    assert [blob.shape for blob in one.layer.blobs] == [(3,)]


def test_learned_bias_matches_numpy(engine: Engine, rng) -> None:
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    params = 'bias_param { filler { type: "gaussian" } }'
    one = check_layer("Bias", params, [x], engine=engine, in_place=True)
    assert_near(one.forward(x)[0], x + one.layer.blobs[0].data[:, None].astype(np.float64))


def test_scales_start_at_one_and_given_fillers_at_their_own_default(
    reference_engine: Engine,
) -> None:
    x = np.zeros((2, 3))
    for text, first in (("", 1), ("scale_param { filler {} }", 0)):
        one = OneLayer(layer_text("Scale", text, 1), [x], reference_engine)
        assert one.layer.blobs[0].data.tolist() == [first] * 3


def test_shapes_that_do_not_fit_are_refused(reference_engine: Engine) -> None:
    with pytest.raises(ShapeError, match=r"shape \(4,\) does not fit"):
        OneLayer(layer_text("Scale", "", 2), [np.zeros((2, 3)), np.zeros(4)], reference_engine)
    with pytest.raises(ParameterError, match="num_axes 3"):
        OneLayer(
            layer_text("Bias", "bias_param { num_axes: 3 }", 1),
            [np.zeros((2, 3))],
            reference_engine,
        )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_matches_its_formula(axis: int, engine: Engine, rng) -> None:
    def softmax(x):
        powers = np.exp(x - x.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)

    check_layer(
        "Softmax",
        f"softmax_param {{ axis: {axis} }}",
        [rng.normal(size=(3, 4, 2))],
        expected=softmax,
        engine=engine,
        in_place=True,
        batch_axis=None if axis == 0 else 0,
    )


def test_dropout_keeps_the_mean_and_its_gradient_follows_the_draw(engine: Engine) -> None:
    x = np.ones((100, 100), np.float32)
    one = OneLayer(layer_text("Dropout", "dropout_param { dropout_ratio: 0.3 }", 1), [x], engine)
    y = one.forward()[0]
    kept = (y != 0).mean()
    assert abs(kept - 0.7) <= 4 * np.sqrt(0.3 * 0.7 / x.size)
    assert np.allclose(y[y != 0], 1 / 0.7)
    assert np.array_equal(one.backward([x])[0], y)
    assert not np.array_equal(one.forward()[0], y)


def test_dropout_is_a_function_of_seed_layer_and_pass(engine: Engine, rng) -> None:
    text, x = layer_text("Dropout", "", 1), rng.normal(size=(4, 5))
    a, b = OneLayer(text, [x], engine, seed=3), OneLayer(text, [x], engine, seed=3)
    first, second = a.forward()[0], a.forward()[0]
    assert np.array_equal(b.forward()[0], first)
    resumed = OneLayer(text, [x], engine, seed=3)
    resumed.layer.load_state(b.layer.state())
    assert np.array_equal(resumed.forward()[0], second)
    assert not np.array_equal(OneLayer(text, [x], engine, seed=4).forward()[0], first)


def test_dropout_passes_the_battery_and_is_the_identity_in_test(engine: Engine, rng) -> None:
    x = rng.normal(size=(4, 5))
    check_layer("Dropout", "", [x], engine=engine, in_place=True)
    check_layer(
        "Dropout", "", [x], expected=lambda x: x, engine=engine, phase=Phase.TEST, in_place=True
    )


def test_a_ratio_out_of_range_is_refused(reference_engine: Engine) -> None:
    with pytest.raises(ParameterError, match="dropout_ratio 1 must be"):
        OneLayer(
            layer_text("Dropout", "dropout_param { dropout_ratio: 1 }", 1),
            [np.zeros(2)],
            reference_engine,
        )
