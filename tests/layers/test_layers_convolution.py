"""Convolution and Deconvolution against plain loops, Caffe's sizes, spellings and refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import ParameterError, ShapeError, WeightsError
from swcaffe.net.layer import Phase

FILL = 'weight_filler { type: "gaussian" std: 0.5 } bias_filler { type: "uniform" min: -1 }'


def convolve(x, w, b, stride, pad, dilation, group):
    """One product after the other, any number of spatial axes."""
    axes = x.ndim - 2
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    sizes = zip(x.shape[2:], pad, extent, stride, strict=True)
    out = [int((i + 2 * p - e) / s) + 1 for i, p, e, s in sizes]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    per_in, per_out = w.shape[1], w.shape[0] // group
    for n, o in np.ndindex(*y.shape[:2]):
        for place in np.ndindex(*out):
            for i, *tap in np.ndindex(*w.shape[1:]):
                at = [place[a] * stride[a] - pad[a] + tap[a] * dilation[a] for a in range(axes)]
                if all(0 <= at[a] < x.shape[2 + a] for a in range(axes)):
                    y[(n, o, *place)] += w[(o, i, *tap)] * x[(n, o // per_out * per_in + i, *at)]
            y[(n, o, *place)] += b[o]
    return y


def deconvolve(x, w, b, stride, pad, group, out):
    """Each input scattered through the kernel."""
    per_in, per_out = x.shape[1] // group, w.shape[1]
    y = np.zeros((x.shape[0], per_out * group, *out))
    for n, c, i, j in np.ndindex(*x.shape):
        for o, u, v in np.ndindex(*w.shape[1:]):
            row, col = i * stride - pad + u, j * stride - pad + v
            if 0 <= row < out[0] and 0 <= col < out[1]:
                y[n, c // per_in * per_out + o, row, col] += x[n, c, i, j] * w[c, o, u, v]
    return y + b[:, None, None]


CASES = {
    "plain": ((2, 3, 5, 4), "kernel_size: 3", (1, 1), (0, 0), (1, 1), 1),
    "stride_pad": ((2, 2, 5, 6), "kernel_size: 3 stride: 2 pad: 1", (2, 2), (1, 1), (1, 1), 1),
    "rectangle": (
        (1, 2, 6, 5),
        "kernel_h: 3 kernel_w: 1 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0",
        (1, 2),
        (1, 0),
        (1, 1),
        1,
    ),
    "dilated": ((1, 2, 7, 7), "kernel_size: 3 dilation: 2", (1, 1), (0, 0), (2, 2), 1),
    "grouped": ((2, 4, 4, 4), "kernel_size: 2 group: 2", (1, 1), (0, 0), (1, 1), 2),
    "one_axis": ((2, 3, 9), "kernel_size: 4 stride: 2 pad: 1", (2,), (1,), (1,), 1),
    "three_axes": ((1, 2, 3, 4, 3), "kernel_size: 2 pad: 1", (1,) * 3, (1,) * 3, (1,) * 3, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_convolution_matches_loops(name: str, engine: Engine, rng: np.random.Generator) -> None:
    shape, text, stride, pad, dilation, group = CASES[name]
    text = f"convolution_param {{ num_output: 4 {text} {FILL} }}"
    x = rng.normal(size=shape).astype(np.float32)
    one = check_layer("Convolution", text, [x], engine=engine)
    w, b = (blob.data.astype(np.float64) for blob in one.layer.blobs)
    expected = convolve(x.astype(np.float64), w, b, stride, pad, dilation, group)
    assert_near(one.forward(x)[0], expected)


@pytest.mark.parametrize(("group", "stride", "pad"), [(1, 1, 0), (1, 2, 1), (2, 2, 0)])
def test_deconvolution_matches_loops(
    group: int, stride: int, pad: int, engine: Engine, rng: np.random.Generator
) -> None:
    x = rng.normal(size=(2, 4, 3, 4)).astype(np.float32)
    text = (
        f"convolution_param {{ num_output: 2 kernel_size: 3 stride: {stride} pad: {pad} "
        f"group: {group} {FILL} }}"
    )
    one = check_layer("Deconvolution", text, [x], engine=engine)
    w, b = (blob.data.astype(np.float64) for blob in one.layer.blobs)
    out = [stride * (size - 1) + 3 - 2 * pad for size in (3, 4)]
    assert_near(one.forward(x)[0], deconvolve(x, w, b, stride, pad, group, out))


def shape_of(kind: str, params: str, shape: tuple[int, ...], engine: Engine) -> tuple[int, ...]:
    return OneLayer(layer_text(kind, params, 1), [np.zeros(shape)], engine).tops[0].shape


@pytest.mark.parametrize(("size", "out"), [(112, 55), (10, 4)])
def test_sizes_of_an_uneven_stride_round_down(
    size: int, out: int, reference_engine: Engine
) -> None:
    text = "convolution_param { num_output: 1 kernel_size: 3 stride: 2 }"
    assert shape_of("Convolution", text, (1, 1, size, size), reference_engine) == (1, 1, out, out)


def test_a_repeated_kernel_size_is_one_per_axis(reference_engine: Engine) -> None:
    text = (
        "convolution_param { num_output: 1 kernel_size: 3 kernel_size: 1 pad: 1 pad: 0 "
        "dilation: 2 dilation: 1 }"
    )
    one = OneLayer(layer_text("Convolution", text, 1), [np.zeros((1, 1, 9, 9))], reference_engine)
    assert one.layer.blobs[0].shape == (1, 1, 3, 1)
    assert one.tops[0].shape == (1, 1, 7, 9)


def test_no_spatial_axes_is_a_product_over_channels(engine: Engine, rng) -> None:
    x = rng.normal(size=(3, 4)).astype(np.float32)
    text = layer_text(
        "Convolution", f"convolution_param {{ num_output: 2 kernel_size: 1 {FILL} }}", 1
    )
    with pytest.raises(ParameterError, match="kernel_size"):
        OneLayer(text.replace("kernel_size: 1", "kernel_size: [1, 1]"), [x], engine)
    one = OneLayer(text, [x], engine)
    w, b = (blob.data for blob in one.layer.blobs)
    assert w.shape == (2, 4)
    assert_near(one.forward()[0], x.astype(np.float64) @ w.T + b)


def test_depthwise_equals_one_convolution_per_channel(engine: Engine, rng) -> None:
    x = rng.normal(size=(2, 8, 6, 6)).astype(np.float32)
    text = "convolution_param { num_output: 8 group: 8 kernel_size: 3 pad: 1 bias_term: false }"
    one = OneLayer(layer_text("Convolution", text, 1), [x], engine)
    w = one.layer.blobs[0].data
    w[...] = rng.normal(size=w.shape)
    whole = one.forward()[0]
    for c in range(8):
        single = convolve(x[:, c : c + 1], w[c : c + 1], np.zeros(1), (1, 1), (1, 1), (1, 1), 1)
        assert_near(whole[:, c : c + 1], single)


def test_bilinear_upsampling_of_ones(engine: Engine) -> None:
    text = (
        "convolution_param { num_output: 2 group: 2 kernel_size: 4 stride: 2 pad: 1 "
        'bias_term: false weight_filler { type: "bilinear" } }'
    )
    one = OneLayer(layer_text("Deconvolution", text, 1), [np.ones((1, 2, 2, 2))], engine)
    line = np.array([0.25, 0.75, 0.75, 0.25])
    assert_near(one.layer.blobs[0].data[1, 0], np.outer(line, line))
    y = one.forward()[0][0, 0]
    assert (y[0, 0], y[0, 1], y[1, 1]) == (0.5625, 0.75, 1.0)


@pytest.mark.parametrize("kind", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("learning", list(itertools.product([True, False], repeat=2)))
def test_only_parameters_that_learn_get_gradients(
    kind: str, learning: tuple[bool, bool], engine: Engine, rng
) -> None:
    text = layer_text(kind, f"convolution_param {{ num_output: 2 kernel_size: 2 {FILL} }}", 1)
    x = rng.normal(size=(2, 2, 3, 3))
    one, full = OneLayer(text, [x], engine), OneLayer(text, [x], engine)
    one.layer.param_propagate_down = list(learning)
    for run in (one, full):
        run.forward()
        run.backward([np.ones(run.tops[0].shape)])
    for ours, theirs, learns in zip(one.layer.blobs, full.layer.blobs, learning, strict=True):
        assert_near(ours.diff, theirs.diff if learns else np.zeros(ours.shape))


BAD = {
    "kernel_h: 3 kernel_size: 3": (ParameterError, "both kernel_size and kernel_h"),
    "kernel_h: 3": (ParameterError, r"\(3, 0\), the least is 1"),
    "": (ParameterError, "kernel_size is missing"),
    "kernel_size: 3 kernel_size: 3 kernel_size: 3": (ParameterError, "given 3 times"),
    "kernel_size: 3 stride: 0": (ParameterError, "stride is"),
    "kernel_size: 3 dilation: 0": (ParameterError, "dilation is"),
    "kernel_size: 3 group: 2": (ParameterError, "channels 3 is not a multiple of group 2"),
    "kernel_size: 9": (ShapeError, r"kernel \(9, 9\).*leaves \(-2, -2\)"),
    "kernel_size: 3 axis: 7": (ShapeError, "axis 7 is out of range"),
}


@pytest.mark.parametrize("params", BAD)
def test_wrong_parameters_are_refused_by_name(params: str, reference_engine: Engine) -> None:
    kind, message = BAD[params]
    text = layer_text("Convolution", f"convolution_param {{ num_output: 2 {params} }}", 1)
    with pytest.raises(kind, match=message):
        OneLayer(text, [np.zeros((1, 3, 6, 6))], reference_engine)


def test_rows_and_columns_need_two_spatial_axes(reference_engine: Engine) -> None:
    text = layer_text(
        "Convolution", "convolution_param { num_output: 1 kernel_h: 2 kernel_w: 2 }", 1
    )
    with pytest.raises(ParameterError, match="describe two spatial axes, the input has 1"):
        OneLayer(text, [np.zeros((1, 3, 6))], reference_engine)


def test_num_output_is_required(reference_engine: Engine) -> None:
    text = layer_text("Convolution", "convolution_param { kernel_size: 1 }", 1)
    with pytest.raises(ParameterError, match="num_output is missing"):
        OneLayer(text, [np.zeros((1, 3, 6, 6))], reference_engine)


def test_channels_may_not_change_and_bottoms_may_not_differ(reference_engine: Engine) -> None:
    text = layer_text("Convolution", "convolution_param { num_output: 2 kernel_size: 1 }", 2, 2)
    one = OneLayer(text, [np.zeros((1, 3, 6, 6))] * 2, reference_engine)
    with pytest.raises(ShapeError, match="made for 3 channels"):
        one.feed([np.zeros((1, 4, 6, 6))] * 2)
    with pytest.raises(ShapeError, match="bottoms differ in shape"):
        one.feed([np.zeros((1, 3, 6, 6)), np.zeros((2, 3, 6, 6))])


def test_stored_weights_are_used_and_checked(reference_engine: Engine) -> None:
    params = "convolution_param { num_output: 1 kernel_size: 2 bias_term: false }"
    stored = "blobs { shape { dim: [1, 1, 2, 2] } data: [1, 2, 3, 4] }"
    x = np.ones((1, 1, 2, 2))
    one = OneLayer(layer_text("Convolution", params + stored, 1), [x], reference_engine)
    assert one.forward()[0].item() == 10
    with pytest.raises(WeightsError, match="2 stored blobs for 1 parameters"):
        OneLayer(layer_text("Convolution", params + stored * 2, 1), [x], reference_engine)
    with pytest.raises(WeightsError, match=r"shape \(1, 1, 2, 2\), the layer needs"):
        wrong = params.replace("kernel_size: 2", "kernel_size: 1") + stored
        OneLayer(layer_text("Convolution", wrong, 1), [x], reference_engine)


def test_filling_is_a_function_of_seed_layer_and_blob(reference_engine: Engine) -> None:
    text = layer_text(
        "Convolution", f"convolution_param {{ num_output: 4 kernel_size: 2 {FILL} }}", 1
    )
    x = np.zeros((1, 2, 3, 3))
    a, b = (OneLayer(text, [x], reference_engine, seed=7) for _ in range(2))
    c = OneLayer(text, [x], reference_engine, seed=8, phase=Phase.TEST)
    assert np.array_equal(a.layer.blobs[0].data, b.layer.blobs[0].data)
    assert not np.array_equal(a.layer.blobs[0].data, c.layer.blobs[0].data)
    assert len(np.unique(a.layer.blobs[0].data)) == 32


def test_a_window_just_too_large_gives_one_output(reference_engine: Engine) -> None:
    text = "convolution_param { num_output: 1 kernel_size: 3 stride: 2 }"
    assert shape_of("Convolution", text, (1, 1, 2, 2), reference_engine) == (1, 1, 1, 1)


WINDOWS = {
    "kernel_size: 3": ((3, 3), (1, 1), (0, 0), (1, 1)),
    "kernel_size: 2 stride: 2 pad: 1": ((2, 2), (2, 2), (1, 1), (1, 1)),
    "kernel_h: 3 kernel_w: 1 dilation: 2 pad_h: 2 pad_w: 0": ((3, 1), (1, 1), (2, 0), (2, 2)),
}


@pytest.mark.parametrize("text", WINDOWS)
def test_im2col_lays_each_window_out_as_a_column(text: str, engine: Engine, rng) -> None:
    kernel, stride, pad, dilation = WINDOWS[text]

    def columns(x):
        n, c, h, w = x.shape
        padded = np.zeros((n, c, h + 2 * pad[0], w + 2 * pad[1]))
        padded[:, :, pad[0] : pad[0] + h, pad[1] : pad[1] + w] = x
        spans = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        out = [(padded.shape[i + 2] - 1 - spans[i]) // stride[i] + 1 for i in (0, 1)]
        found = np.zeros((n, c, *kernel, *out))
        for _, _, ky, kx, oy, ox in np.ndindex(1, 1, *kernel, *out):
            y, x_ = oy * stride[0] + ky * dilation[0], ox * stride[1] + kx * dilation[1]
            found[:, :, ky, kx, oy, ox] = padded[:, :, y, x_]
        return found.reshape(n, -1, *out)

    check_layer(
        "Im2col",
        f"convolution_param {{ {text} }}",
        [rng.normal(size=(2, 2, 5, 4))],
        expected=columns,
        engine=engine,
    )


def test_im2col_times_weights_is_the_convolution(engine: Engine, rng) -> None:
    x = rng.normal(size=(2, 3, 5)).astype(np.float32)
    window = "kernel_size: 3 stride: 2 pad: 1"
    columns = OneLayer(layer_text("Im2col", f"convolution_param {{ {window} }}", 1), [x], engine)
    text = f'convolution_param {{ num_output: 4 {window} weight_filler {{ type: "gaussian" }} }}'
    convolution = OneLayer(layer_text("Convolution", text, 1), [x], engine)
    weights = convolution.layer.blobs[0].data.reshape(4, -1)
    assert_near(np.einsum("or,nrp->nop", weights, columns.forward()[0]), convolution.forward()[0])


def test_im2col_refuses_kernels_larger_than_the_image_and_other_axes(
    reference_engine: Engine,
) -> None:
    text = layer_text("Im2col", "convolution_param { kernel_size: 9 }", 1)
    with pytest.raises(ShapeError, match=r"kernel \(9, 9\).*leaves"):
        OneLayer(text, [np.zeros((1, 1, 5, 5))], reference_engine)
    one = OneLayer(
        layer_text("Im2col", "convolution_param { kernel_size: 1 }", 1),
        [np.zeros((1, 1, 5, 5))],
        reference_engine,
    )
    with pytest.raises(ShapeError, match="must have 4 axes"):
        one.feed([np.zeros((1, 1, 5))])
