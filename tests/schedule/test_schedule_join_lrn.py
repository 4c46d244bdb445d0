"""Joining, cutting and response normalisation, at both fidelities, against their definitions."""

from __future__ import annotations

import pytest
from template_battery import check_template, random_arrays, template

from swcaffe.ir.stmt import MAX_PARAMS
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.eltwise import EltwiseSum
from swcaffe.operators.layout import Concat, Slice
from swcaffe.operators.lrn import LrnBackward, LrnForward, LrnGeometry
from swcaffe.schedule.templates import join, lrn, walk  # noqa: F401  each registers itself


@pytest.mark.parametrize(
    "op",
    [
        Concat(3, (5, 1, 7)),
        Concat(1, (500,)),
        Concat(1, (9, 60)),
        Concat(40, (70, 3)),
        Slice(3, (5, 1, 7), (0, 2)),
        Slice(1, (33, 400), (1,)),
        Slice(50, (2, 3), (0, 1)),
    ],
    ids=str,
)
def test_moving_rows_equals_its_definition(op):
    check_template(template(op, "join"), op, TOY, limit=3)


def inputs_of(op):
    """The scale of the forward direction is positive."""
    inputs, _ = random_arrays(op)
    return [abs(x) if o.name == "scale" else x for o, x in zip(op.inputs, inputs, strict=True)]


@pytest.mark.parametrize(
    "geometry",
    [
        LrnGeometry(2, 5, 3, 4, 3, 0.3, 0.75),
        LrnGeometry(1, 2, 1, 7, 5, 1.0, 0.5, 2.0),
        LrnGeometry(5, 3, 2, 2, 1, 0.1, 0.75),
        LrnGeometry(9, 4, 5, 5, 5, 0.7, 0.75),
        LrnGeometry(2, 7, 3, 4, 3, 0.3, 0.75, region="within"),
        LrnGeometry(1, 2, 2, 1, 5, 0.3, 0.75, region="within"),
        LrnGeometry(3, 1, 4, 4, 1, 0.3, 0.75, region="within"),
    ],
    ids=[
        "3 of 5",
        "window wider than the channels",
        "of one",
        "several tiles",
        "within",
        "within, wider than the plane",
        "within, of one",
    ],
)
@pytest.mark.parametrize("kind", [LrnForward, LrnBackward])
def test_response_normalisation_equals_its_definition(kind, geometry):
    op = kind(geometry)
    check_template(template(op, "lrn"), op, TOY, limit=5, inputs=inputs_of(op))


@pytest.mark.sw26010
@pytest.mark.parametrize("kind", [LrnForward, LrnBackward])
def test_response_normalisation_on_the_whole_mesh(kind):
    op = kind(LrnGeometry(3, 32, 8, 8, 3, 5e-5, 0.75))
    check_template(template(op, "lrn"), op, SW26010, limit=2, inputs=inputs_of(op))


def test_what_cannot_be_scheduled_is_refused():
    wide = LrnForward(LrnGeometry(1, 40, 1, 1, 27, 1.0, 0.75))
    assert template(wide, "lrn").refuse(wide, SW26010) == (
        "a window of 27 elements, at most 25 are scheduled"
    )
    many = f"17 operands, a program takes {MAX_PARAMS}"
    for op in (Concat(2, (1,) * 16), EltwiseSum(4, (1.0,) * 16)):
        t = template(op, "join" if isinstance(op, Concat) else "walk")
        assert t.refuse(op, TOY) == many
    empty = Concat(2, (3, 0))
    assert template(empty, "join").refuse(empty, TOY) == "an empty piece"
