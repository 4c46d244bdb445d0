"""Pooling against plain loops, Caffe's window rules and the random draw of STOCHASTIC."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import NetError, ParameterError, ShapeError
from swcaffe.net.layer import Phase


def params(text: str) -> str:
    return f"pooling_param {{ {text} }}"


def distinct(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Values so far apart that no finite difference changes which is largest."""
    return (rng.permutation(int(np.prod(shape))).reshape(shape) * 0.1).astype(np.float32)


def windows(size: int, out: int, kernel: int, stride: int, pad: int):
    for i in range(out):
        start = i * stride - pad
        end = min(start + kernel, size + pad)
        yield max(start, 0), min(end, size), end - start


def pool_by_loops(x, kernel, stride, pad, mean: bool):
    def out(size):
        count = -(-(size + 2 * pad - kernel) // stride) + 1
        return count - (pad > 0 and (count - 1) * stride >= size + pad)

    y = np.zeros((*x.shape[:2], out(x.shape[2]), out(x.shape[3])))
    rows = list(windows(x.shape[2], y.shape[2], kernel, stride, pad))
    cols = list(windows(x.shape[3], y.shape[3], kernel, stride, pad))
    for n, c, i, j in np.ndindex(*y.shape):
        (h0, h1, h), (w0, w1, w) = rows[i], cols[j]
        part = x[n, c, h0:h1, w0:w1]
        y[n, c, i, j] = part.sum() / (h * w) if mean else part.max()
    return y


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 0), (3, 2, 1), (3, 1, 2)])
def test_pooling_matches_loops(
    kind: str, kernel: int, stride: int, pad: int, engine: Engine, rng
) -> None:
    check_layer(
        "Pooling",
        params(f"pool: {kind} kernel_size: {kernel} stride: {stride} pad: {pad}"),
        [distinct(rng, 2, 2, 6, 5)],
        expected=lambda x: pool_by_loops(x, kernel, stride, pad, kind == "AVE"),
        engine=engine,
    )


SIZES = [
    ("kernel_size: 3 stride: 2", 112, 56),
    ("kernel_size: 3 stride: 2", 10, 5),
    ("kernel_size: 3 stride: 2 round_mode: FLOOR", 112, 55),
    ("kernel_size: 3 stride: 2 round_mode: FLOOR", 10, 4),
    ("kernel_size: 3 stride: 2 pad: 1", 28, 15),
    ("kernel_size: 2 stride: 2 pad: 1", 3, 2),
    ("kernel_size: 3 stride: 2 pad: 1", 112, 57),
    ("kernel_size: 3 stride: 2 pad: 1 ceil_mode: false", 112, 56),
    ("global_pooling: true", 7, 1),
]


@pytest.mark.parametrize(("text", "size", "out"), SIZES)
def test_output_sizes_round_as_caffe_does(
    text: str, size: int, out: int, reference_engine: Engine
) -> None:
    one = OneLayer(
        layer_text("Pooling", params(text), 1), [np.zeros((1, 1, size, size))], reference_engine
    )
    assert one.tops[0].shape == (1, 1, out, out)


def test_zeros_of_the_padding_count_in_a_mean_and_what_lies_beyond_does_not(engine: Engine) -> None:
    padded = layer_text("Pooling", params("pool: AVE kernel_size: 3 stride: 1 pad: 1"), 1)
    assert_near(
        OneLayer(padded, [np.ones((1, 1, 2, 2))], engine).forward()[0], np.full((1, 1, 2, 2), 4 / 9)
    )
    beyond = layer_text("Pooling", params("pool: AVE kernel_size: 3 stride: 2"), 1)
    y = OneLayer(beyond, [np.ones((1, 1, 4, 4))], engine).forward()[0]
    assert np.array_equal(y, np.ones((1, 1, 2, 2)))


def test_the_second_top_says_where_the_maximum_was(engine: Engine) -> None:
    x = np.array([[[[1, 5, 5], [0, 2, 7], [3, 3, 4]]]])
    one = OneLayer(layer_text("Pooling", params("kernel_size: 2 stride: 1"), 1, 2), [x], engine)
    values, mask = one.forward()
    assert values.tolist() == [[[[5, 7], [3, 7]]]]
    assert mask.tolist() == [[[[1, 5], [6, 5]]]]  # of equal values the first


def test_a_global_kernel_follows_the_image(engine: Engine, rng) -> None:
    text = layer_text("Pooling", params("pool: AVE global_pooling: true"), 1)
    one = OneLayer(text, [np.zeros((1, 2, 3, 5))], engine)
    x = rng.normal(size=(2, 2, 6, 4))
    assert_near(one.forward(x)[0][..., 0, 0], x.mean(axis=(2, 3)), 1e-6)


def stochastic(phase: Phase, x: np.ndarray, engine: Engine, kernel: int = 2) -> OneLayer:
    text = params(f"pool: STOCHASTIC kernel_size: {kernel} stride: {kernel}")
    return OneLayer(layer_text("Pooling", text, 1), [x], engine, phase=phase)


def test_stochastic_pooling_draws_in_proportion_to_the_values(engine: Engine) -> None:
    planes = 4000
    x = np.tile(np.array([[1, 0], [3, 4]], np.float32), (1, planes, 1, 1))
    one = stochastic(Phase.TRAIN, x, engine)
    drawn = one.forward()[0].reshape(-1)
    share = {value: float((drawn == value).mean()) for value in (0, 1, 3, 4)}
    for value, p in {0: 0.0, 1: 1 / 8, 3: 3 / 8, 4: 4 / 8}.items():
        assert abs(share[value] - p) <= 4 * np.sqrt(p * (1 - p) / planes), (value, share)
    diff = one.backward([np.ones((1, planes, 1, 1))])[0]
    assert np.array_equal((x * diff).sum(axis=(2, 3)).reshape(-1), drawn)
    assert not np.array_equal(one.forward()[0].reshape(-1), drawn)


def test_stochastic_pooling_tests_with_the_expectation(engine: Engine) -> None:
    x = np.array([[[[1, 0], [3, 4]], [[0, 0], [0, 0]]]])
    assert stochastic(Phase.TEST, x, engine).forward()[0].reshape(-1).tolist() == [3.25, 0]


BAD = {
    "pool: MAX": (ParameterError, "kernel_size, or both kernel_h and kernel_w"),
    "kernel_size: 2 kernel_h: 2 kernel_w: 2": (ParameterError, "both kernel_size and kernel_h"),
    "kernel_h: 2": (ParameterError, "both kernel_h and kernel_w"),
    "kernel_size: 2 pad: 1 pad_h: 1 pad_w: 1": (ParameterError, "both pad and pad_h"),
    "kernel_size: 2 stride: 0": (ParameterError, "stride"),
    "kernel_size: 0": (ParameterError, "kernel"),
    "kernel_size: 2 pad: 2": (ParameterError, r"pad \(2, 2\) must be less"),
    "pool: STOCHASTIC kernel_size: 3 pad: 1": (ParameterError, "STOCHASTIC"),
    "global_pooling: true kernel_size: 2": (ParameterError, "given with global_pooling"),
    "global_pooling: true stride: 2": (ParameterError, "needs pad 0 and stride 1"),
    "kernel_size: 9 round_mode: FLOOR": (ShapeError, r"kernel \(9, 9\)"),
}


@pytest.mark.parametrize("text", BAD)
def test_wrong_parameters_are_refused_by_name(text: str, reference_engine: Engine) -> None:
    kind, message = BAD[text]
    with pytest.raises(kind, match=message):
        OneLayer(layer_text("Pooling", params(text), 1), [np.zeros((1, 1, 5, 5))], reference_engine)


def test_only_maxima_have_places_and_only_pictures_are_pooled(reference_engine: Engine) -> None:
    with pytest.raises(NetError, match="unless pool is MAX"):
        OneLayer(
            layer_text("Pooling", params("pool: AVE kernel_size: 2"), 1, 2),
            [np.zeros((1, 1, 5, 5))],
            reference_engine,
        )
    with pytest.raises(ShapeError, match="4 axes"):
        OneLayer(
            layer_text("Pooling", params("kernel_size: 2"), 1),
            [np.zeros((1, 5, 5))],
            reference_engine,
        )


@pytest.mark.parametrize("method", ["MAX", "AVE"])
@pytest.mark.parametrize("height", [1, 3])
def test_a_pyramid_pools_into_twice_as_many_bins_each_level(
    method: str, height: int, engine: Engine, rng
) -> None:
    def pyramid(x):
        """Sides 8 and 4 divide into 4 bins, so no window is cut and no padding counts."""
        levels = []
        for bins in (2**level for level in range(height)):
            cut = x.reshape(2, 2, bins, 8 // bins, bins, 4 // bins)
            pooled = cut.max(axis=(3, 5)) if method == "MAX" else cut.mean(axis=(3, 5))
            levels.append(pooled.reshape(2, -1))
        return levels[0].reshape(2, 2, 1, 1) if height == 1 else np.concatenate(levels, axis=1)

    check_layer(
        "SPP",
        f"spp_param {{ pool: {method} pyramid_height: {height} }}",
        [rng.permutation(128).reshape(2, 2, 8, 4) * 0.1],
        expected=pyramid,
        engine=engine,
    )


def test_a_pyramid_gives_one_width_for_images_of_any_size(engine: Engine) -> None:
    text = layer_text("SPP", "spp_param { pyramid_height: 3 }", 1)
    one = OneLayer(text, [np.zeros((1, 2, 9, 7))], engine)
    for height, width in [(9, 7), (16, 16), (11, 30)]:
        x = np.full((1, 2, height, width), 3.0)
        assert one.forward(x)[0].tolist() == np.full((1, 42), 3).tolist()
        one.backward([np.ones((1, 42))])
        assert one.bottoms[0].diff.sum() == 42


def test_each_level_of_a_random_pyramid_draws_anew_and_resumes(engine: Engine, rng) -> None:
    text = layer_text("SPP", "spp_param { pool: STOCHASTIC pyramid_height: 2 }", 1)
    x = rng.uniform(size=(2, 3, 4, 4))
    one, other = OneLayer(text, [x], engine), OneLayer(text, [x], engine)
    first = one.forward()[0]
    other.layer.load_state(one.layer.state())
    second = one.forward()[0]
    assert np.array_equal(other.forward()[0], second)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("", (1, 1, 4, 4), "pyramid_height is missing"),
        ("pyramid_height: 3", (1, 1, 5, 8), "too small for the 4 x 4 bins"),
        ("pyramid_height: 2 pool: STOCHASTIC", (1, 1, 5, 4), "does not divide into 2 x 2 bins"),
        ("pyramid_height: 1", (1, 4, 4), "4 axes"),
    ],
)
def test_a_pyramid_that_does_not_fit_is_refused(
    text: str, shape: tuple[int, ...], message: str, reference_engine: Engine
) -> None:
    with pytest.raises((ParameterError, ShapeError), match=message):
        OneLayer(
            layer_text("SPP", f"spp_param {{ {text} }}", 1), [np.zeros(shape)], reference_engine
        )
