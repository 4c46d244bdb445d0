"""Convolutions of the host engine against the sum over kernel positions."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_host_operators import ENGINES, check, random_inputs

from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)


def check_all(g: ConvGeometry, has_bias: bool = True, accumulate: bool = True) -> None:
    for op in (
        ConvForward(g, has_bias),
        ConvBackwardData(g),
        ConvBackwardWeights(g, has_bias, accumulate),
    ):
        check(op, random_inputs(op), bilinear=True)


@st.composite
def geometries(draw):
    axes = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(axes))

    groups = draw(st.integers(1, 3))
    kernel, dilation, pad = each(1, 4), each(1, 2), each(0, 3)
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    least = [max(1, e - 2 * p) for e, p in zip(extent, pad, strict=True)]
    size = tuple(low + draw(st.integers(0, 18 // axes**2)) for low in least)
    channels = [groups * draw(st.sampled_from([1, 2, 5, 17])) for _ in range(2)]
    n = draw(st.integers(1, 5))
    return ConvGeometry(n, *channels, size, kernel, each(1, 3), pad, dilation, groups)


@settings(deadline=None, max_examples=120)
@given(geometries(), st.booleans(), st.booleans())
def test_convolution_matches_its_definition(g, has_bias, accumulate):
    check_all(g, has_bias, accumulate)


@pytest.mark.parametrize(
    "g",
    [
        ConvGeometry(64, 1, 20, (28, 28), (5, 5), (1, 1), (0, 0), (1, 1)),
        ConvGeometry(10, 20, 50, (12, 12), (5, 5), (1, 1), (0, 0), (1, 1)),
        ConvGeometry(4, 32, 64, (8, 8), (5, 5), (1, 1), (2, 2), (1, 1)),
        ConvGeometry(2, 96, 64, (13, 13), (3, 3), (1, 1), (1, 1), (1, 1), 2),
        ConvGeometry(2, 130, 70, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
        ConvGeometry(2, 64, 96, (14, 14), (1, 1), (1, 1), (0, 0), (1, 1)),
        ConvGeometry(1, 3, 16, (115, 115), (11, 11), (4, 4), (0, 0), (1, 1)),
        ConvGeometry(1, 2, 3, (100, 100), (3, 3), (1, 1), (1, 1), (1, 1)),
        ConvGeometry(1, 600, 5, (3, 3), (3, 3), (1, 1), (1, 1), (1, 1)),
    ],
    ids=str,
)
def test_shapes_of_known_nets_match_the_definition(g):
    check_all(g)


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 3), st.integers(1, 2), st.sampled_from([32, 40, 70]),
    st.sampled_from([32, 45, 64]), st.integers(1, 3), st.integers(1, 9), st.integers(1, 20),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_pointwise_gradients_match_the_definition(
    n, groups, ic, oc, stride, height, width, has_bias, accumulate
):
    channels = (ic * groups, oc * groups)
    g = ConvGeometry(
        n, *channels, (height, width), (1, 1), (stride, stride), (0, 0), (1, 1), groups
    )
    op = ConvBackwardWeights(g, has_bias, accumulate)
    assert "over the batch" in ENGINES[0].plan(op).route
    check(op, random_inputs(op), bilinear=True)


@settings(deadline=None, max_examples=60)
@given(geometries(), st.booleans())
def test_planes_with_kernels_of_their_own_match_the_definition(g, has_bias):
    planes = g.groups * 3
    g = replace(g, ic=planes, oc=planes, groups=planes)
    assert "weighted taps" in ENGINES[0].plan(ConvForward(g, has_bias)).route
    check_all(g, has_bias)


def test_depthwise_convolution_matches_the_definition():
    check_all(ConvGeometry(1, 32, 32, (112, 112), (3, 3), (1, 1), (1, 1), (1, 1), 32))


def test_depthwise_convolution_is_not_slower_than_the_dense_one():
    seconds = []
    for groups in (32, 1):
        g = ConvGeometry(1, 32, 32, (112, 112), (3, 3), (1, 1), (1, 1), (1, 1), groups)
        op = ConvForward(g)
        plan, arrays = ENGINES[0].plan(op), random_inputs(op)
        dst = np.empty(g.dst, np.float32)
        runs = []
        for _ in range(10):
            start = time.thread_time()
            plan(*arrays, dst)
            runs.append(time.thread_time() - start)
        seconds.append(min(runs))
    assert seconds[0] <= seconds[1]


def test_a_window_just_larger_than_the_image_gives_one_output():
    check_all(ConvGeometry(1, 2, 3, (2, 2), (3, 3), (2, 2), (0, 0), (1, 1)))


def test_four_spatial_axes_are_refused_and_run_by_the_definition():
    g = ConvGeometry(1, 1, 1, (3,) * 4, (2,) * 4, (1,) * 4, (0,) * 4, (1,) * 4)
    plan = ENGINES[0].plan(ConvForward(g))
    assert plan.route == "reference"


def test_no_images_are_no_error():
    g = ConvGeometry(0, 3, 4, (8, 8), (3, 3), (1, 1), (1, 1), (1, 1))
    for op in (ConvForward(g), ConvBackwardData(g), ConvBackwardWeights(g)):
        outputs = [np.ones(operand.shape, np.float32) for operand in op.outputs]
        ENGINES[1].plan(op)(*random_inputs(op), *outputs)
        assert all((array == 1).all() for array in outputs)


@settings(deadline=None, max_examples=60)
@given(
    geometries(),
    st.sampled_from([ConvForward, ConvBackwardData, ConvBackwardWeights]),
    st.integers(0, 1),
    st.randoms(use_true_random=False),
)
def test_what_is_not_finite_reaches_only_sums_that_it_is_part_of(g, kind, which, draw):
    op = kind(g)
    inputs = random_inputs(op)
    spoiled = inputs[which].reshape(-1)
    spoiled[draw.randrange(spoiled.size)] = draw.choice([np.nan, np.inf])
    outputs = [np.zeros(o.shape, np.float32) for o in op.outputs]
    ENGINES[1].plan(op)(*inputs, *outputs)
    with np.errstate(invalid="ignore"):
        wanted = op.reference(*inputs)
    for got, want in zip(outputs, wanted, strict=True):
        spread = ~np.isfinite(got) & np.isfinite(want.reshape(got.shape))
        assert not spread.any()
        if kind is ConvBackwardWeights:
            np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want.reshape(got.shape)))
