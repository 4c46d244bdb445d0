"""The numpy definitions of products, convolutions and pooling against loops over single elements."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swcaffe.errors import ShapeError
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
    PoolGeometry,
)


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_within(op, got, want):
    assert np.linalg.norm(got - want) <= op.tolerance() * np.linalg.norm(want)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_gemm_sums_products(trans_a, trans_b):
    op = Gemm(3, 4, 5, trans_a, trans_b, has_bias=True)
    a, b, bias = (normal(operand.shape, i) for i, operand in enumerate(op.inputs))
    (c,) = op.reference(a, b, bias)
    for i, j in np.ndindex(3, 4):
        terms = (
            float(a[(p, i) if trans_a else (i, p)]) * float(b[(j, p) if trans_b else (p, j)])
            for p in range(5)
        )
        assert c[i, j] == pytest.approx(sum(terms) + bias[j], rel=1e-5, abs=1e-6)


def test_gemm_accumulates_into_what_is_there():
    op = Gemm(2, 2, 1, accumulate=True)
    c = np.full((2, 2), 10, np.float32)
    op.run_reference(np.array([[1], [2]], "f"), np.array([[3, 4]], "f"), c)
    assert c.tolist() == [[13, 14], [16, 18]]


def test_a_sum_that_accumulates_has_no_bias():
    with pytest.raises(AssertionError, match="excludes has_bias"):
        Gemm(1, 1, 1, accumulate=True, has_bias=True)


@st.composite
def geometries(draw):
    axes = draw(st.integers(1, 2))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(axes))

    groups, kernel, dilation, pad = draw(st.integers(1, 2)), each(1, 3), each(1, 2), each(0, 2)
    least = [max(1, d * (k - 1) + 1 - 2 * p) for k, d, p in zip(kernel, dilation, pad, strict=True)]
    size = tuple(low + draw(st.integers(0, 3)) for low in least)
    return ConvGeometry(2, 2 * groups, groups, size, kernel, each(1, 3), pad, dilation, groups)


def products(g: ConvGeometry):
    """(n, output channel, output place, input channel, input place, tap) of every product."""
    inner, outer = g.ic // g.groups, g.oc // g.groups
    for n, o, i in itertools.product(range(g.n), range(g.oc), range(inner)):
        for place in np.ndindex(*g.out_size):
            for tap in np.ndindex(*g.kernel):
                where = tuple(
                    p * s - pad + t * d
                    for p, s, pad, t, d in zip(place, g.stride, g.pad, tap, g.dilation, strict=True)
                )
                if all(0 <= w < size for w, size in zip(where, g.in_size, strict=True)):
                    yield (n, o, *place), (n, o // outer * inner + i, *where), (o, i, *tap)


@settings(deadline=None, max_examples=40)
@given(geometries())
def test_convolution_and_its_gradients_are_sums_of_products(g):
    src, weights, diff = normal(g.src), normal(g.weights, 1), normal(g.dst, 2)
    want = [np.zeros(shape) for shape in (g.dst, g.src, g.weights)]
    for at_dst, at_src, at_weights in products(g):
        want[0][at_dst] += float(src[at_src]) * float(weights[at_weights])
        want[1][at_src] += float(diff[at_dst]) * float(weights[at_weights])
        want[2][at_weights] += float(diff[at_dst]) * float(src[at_src])
    forward, data = ConvForward(g, has_bias=False), ConvBackwardData(g)
    gradient = ConvBackwardWeights(g)
    assert_within(forward, forward.reference(src, weights)[0], want[0])
    assert_within(data, data.reference(weights, diff)[0], want[1])
    diff_weights, diff_bias = gradient.reference(src, diff)
    assert_within(gradient, diff_weights, want[2])
    axes = (0, *range(2, diff.ndim))
    np.testing.assert_allclose(diff_bias, diff.astype(np.float64).sum(axes), rtol=1e-4, atol=1e-5)


def windows(g: PoolGeometry, oh: int, ow: int):
    """Input places of a window that lie inside the image, in row-major order."""
    rows = range(oh * g.stride[0] - g.pad[0], oh * g.stride[0] - g.pad[0] + g.kernel[0])
    columns = range(ow * g.stride[1] - g.pad[1], ow * g.stride[1] - g.pad[1] + g.kernel[1])
    for h, w in itertools.product(rows, columns):
        if 0 <= h < g.in_size[0] and 0 <= w < g.in_size[1]:
            yield h, w


@pytest.mark.parametrize(
    "g",
    [
        PoolGeometry(2, 3, (5, 7), (2, 2), (2, 2), (0, 0)),
        PoolGeometry(2, 3, (5, 7), (3, 3), (2, 2), (1, 1)),
        PoolGeometry(1, 2, (6, 4), (3, 2), (1, 3), (0, 0), round_up=False),
    ],
)
def test_max_pooling_takes_the_first_largest_element(g):
    src = np.round(normal(g.src) * 2)  # with ties
    dst, index = MaxPoolForward(g).reference(src)
    diff = normal(g.dst, 1)
    (diff_src,) = MaxPoolBackward(g).reference(index, diff)
    want = np.zeros(g.src)
    for n, c, oh, ow in np.ndindex(*g.dst):
        places = list(windows(g, oh, ow))
        best = max(places, key=lambda p: src[n, c, p[0], p[1]])
        assert dst[n, c, oh, ow] == src[n, c, best[0], best[1]]
        assert index[n, c, oh, ow] == best[0] * g.in_size[1] + best[1]
        want[n, c, best[0], best[1]] += diff[n, c, oh, ow]
    np.testing.assert_allclose(diff_src, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "want"),
    [(2, 3, 1, 1, 4 / 9), (4, 3, 2, 0, 1.0)],
)
def test_the_mean_counts_padding_but_not_what_lies_beyond(size, kernel, stride, pad, want):
    g = PoolGeometry(1, 1, (size,) * 2, (kernel,) * 2, (stride,) * 2, (pad,) * 2)
    (dst,) = AvePoolForward(g).reference(np.ones(g.src, np.float32))
    np.testing.assert_allclose(dst, want, rtol=1e-6)


def test_the_gradient_of_the_mean_is_its_transpose():
    g = PoolGeometry(2, 2, (6, 5), (3, 2), (2, 2), (1, 0))
    src, diff = normal(g.src), normal(g.dst, 1)
    left = float((AvePoolForward(g).reference(src)[0].astype(np.float64) * diff).sum())
    right = float((AvePoolBackward(g).reference(diff)[0].astype(np.float64) * src).sum())
    assert left == pytest.approx(right, rel=1e-4)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "pooled", "floored", "convolved"),
    [
        (112, 3, 2, 0, 56, 55, 55),
        (10, 3, 2, 0, 5, 4, 4),
        (112, 3, 2, 1, 57, 56, 56),
        (28, 3, 2, 1, 15, 14, 14),
        (3, 2, 2, 1, 2, 2, 2),
    ],
)
def test_pooling_rounds_sizes_up_and_convolution_down(
    size, kernel, stride, pad, pooled, floored, convolved
):
    shape = [(v, v) for v in (size, kernel, stride, pad)]
    assert PoolGeometry(1, 1, *shape).out_size == (pooled, pooled)
    assert PoolGeometry(1, 1, *shape, round_up=False).out_size == (floored, floored)
    g = ConvGeometry(1, 1, 1, *shape, (1, 1))
    assert g.out_size == (convolved, convolved)


@pytest.mark.parametrize("kind", ["relu", "sigmoid", "tanh", "elu"])
def test_activation_gradients_are_slopes(kind):
    x = np.linspace(-3, 3, 41).astype(np.float32)
    x = x[np.abs(x) > 0.01]  # away from the kink
    forward = ActivationForward(kind, x.size, 0.3)
    backward = ActivationBackward(kind, x.size, 0.3)
    step = np.float32(1e-3)
    slope = (forward.reference(x + step)[0] - forward.reference(x - step)[0]) / (2 * step)
    (diff,) = backward.reference(x, *forward.reference(x), np.ones_like(x))
    np.testing.assert_allclose(diff, slope, atol=2e-3)


def test_tolerance_grows_with_the_root_of_the_terms():
    eps = float(np.finfo(np.float32).eps)
    assert Gemm(1, 1, 99).tolerance() == pytest.approx(40 * eps)
    assert ActivationForward("relu", 5).tolerance() == pytest.approx(4 * eps)
    g = ConvGeometry(2, 4, 6, (5, 5), (3, 3), (1, 1), (0, 0), (1, 1), 2)
    assert ConvForward(g).terms == 2 * 9 + 1 and g.macs == math.prod(g.dst) * 18


def test_arrays_that_do_not_fit_are_named():
    op = Gemm(2, 3, 4)
    a, b, c = (np.zeros(o.shape, np.float32) for o in (*op.inputs, *op.outputs))
    op.check(a, b, c)
    op.check(a.reshape(-1), b, c)
    with pytest.raises(ShapeError, match=r"operand b of Gemm.*\(4, 3\), got float32 \(4, 2\)"):
        op.check(a, b[:, :2], c)
    with pytest.raises(ShapeError, match="takes 3 arrays, got 2"):
        op.check(a, b)
