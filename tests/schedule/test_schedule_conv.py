"""Convolution schedules in all directions: strides, pads, dilations, groups, one and two axes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from template_battery import check_template, template

from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.schedule.template import TEMPLATES
from swcaffe.schedule.templates import (  # noqa: F401  each registers itself
    conv_im2col,
    conv_ldm,
    conv_weights,
    conv_weights_ldm,
)

SMALL = replace(TOY, name="small", ldm=replace(TOY.ldm, capacity_bytes=16384))

GEOMETRIES = {
    "plain": ConvGeometry(4, 3, 5, (6, 7), (3, 3), (1, 1), (0, 0), (1, 1)),
    "uneven": ConvGeometry(3, 2, 3, (5, 6), (3, 2), (1, 1), (1, 0), (1, 1)),
    "grouped and strided": ConvGeometry(4, 4, 6, (7, 5), (3, 3), (2, 2), (1, 1), (1, 1), 2),
    "grouped": ConvGeometry(4, 4, 6, (7, 5), (3, 3), (1, 1), (1, 1), (1, 1), 2),
    "one axis, dilated": ConvGeometry(2, 1, 2, (9,), (3,), (2,), (1,), (2,)),
    "dilated, mixed": ConvGeometry(4, 3, 20, (6, 6), (2, 2), (1, 2), (0, 1), (2, 1)),
    "dilated": ConvGeometry(4, 3, 20, (6, 6), (2, 2), (1, 1), (0, 1), (2, 1)),
    "gaps between windows": ConvGeometry(2, 2, 2, (4, 4), (2, 2), (3, 3), (0, 0), (1, 1)),
    "mostly padding": ConvGeometry(1, 3, 4, (5, 5), (5, 5), (1, 1), (4, 4), (1, 1)),
    "more padding than kernel": ConvGeometry(2, 3, 4, (6, 5), (3, 3), (1, 1), (3, 3), (1, 1)),
    "window too large by less than a stride": ConvGeometry(
        2, 1, 2, (4, 4), (5, 5), (2, 2), (0, 0), (1, 1)
    ),
}


def directions(g, has_bias=True, accumulate=True):
    return (
        ConvForward(g, has_bias),
        ConvBackwardData(g),
        ConvBackwardWeights(g, has_bias, accumulate),
    )


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
@pytest.mark.parametrize("direction", [0, 1, 2], ids=["forward", "data", "weights"])
@pytest.mark.parametrize("family", ["im2col", "ldm"])
@pytest.mark.parametrize("flags", [True, False], ids=["bias, accumulate", "neither"])
def test_convolution_schedule_equals_its_definition(geometry, direction, family, flags):
    op = directions(geometry, flags, flags)[direction]
    t = next(t for t in TEMPLATES[type(op)] if t.name.endswith(family))
    reason = t.refuse(op, SMALL)
    if reason is not None:
        assert family == "ldm" and "only 1 is a convolution" in reason
        return
    check_template(t, op, SMALL)


@st.composite
def geometries(draw):
    def pair(low, high):
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    groups = draw(st.integers(1, 2))
    kernel, dilation, pad = pair(1, 3), pair(1, 2), pair(0, 2)
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    size = tuple(
        max(1, e - 2 * p) + draw(st.integers(0, 6)) for e, p in zip(extent, pad, strict=True)
    )
    ic, oc = (groups * draw(st.sampled_from([1, 2, 5])) for _ in range(2))
    return ConvGeometry(
        draw(st.integers(1, 5)), ic, oc, size, kernel, pair(1, 3), pad, dilation, groups
    )


@settings(deadline=None, max_examples=40)
@given(geometries(), st.integers(0, 2), st.booleans())
def test_any_convolution_equals_its_definition(geometry, direction, flags):
    op = directions(geometry, flags, flags)[direction]
    able = [t for t in TEMPLATES[type(op)] if t.refuse(op, SMALL) is None]
    assume(able)
    for t in able:
        check_template(t, op, SMALL, limit=2)


@pytest.mark.sw26010
@pytest.mark.parametrize("direction", [0, 1, 2], ids=["forward", "data", "weights"])
def test_convolution_on_the_whole_mesh(direction):
    g = ConvGeometry(9, 3, 20, (8, 8), (5, 5), (1, 1), (2, 2), (1, 1))
    op = directions(g)[direction]
    for t in TEMPLATES[type(op)]:
        check_template(t, op, SW26010, limit=1)


def test_three_spatial_axes_are_refused():
    g = ConvGeometry(1, 1, 1, (3, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1))
    for op in directions(g):
        for t in TEMPLATES[type(op)]:
            assert t.refuse(op, SW26010) == "3 spatial axes, 1 or 2 are scheduled"


def test_an_image_row_larger_than_the_ldm_is_refused():
    op = ConvForward(ConvGeometry(8, 1, 1, (1, 300), (1, 9), (1, 1), (0, 0), (1, 1)))
    reason = template(op, "conv_forward_im2col").refuse(op, TOY)
    assert reason == "one row of windows is over 2048 B of LDM"


def test_backward_data_with_a_stride_is_refused_by_the_reversed_schedule():
    op = ConvBackwardData(ConvGeometry(2, 1, 1, (5, 5), (3, 3), (2, 2), (0, 0), (1, 1)))
    reason = template(op, "conv_backward_data_ldm").refuse(op, SMALL)
    assert reason == "stride (2, 2), only 1 is a convolution of the output gradient"
