"""Pooling in both directions, whole planes and strips, against its definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from template_battery import check_template, template

import swcaffe.schedule.templates.pooling  # noqa: F401  registers
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.execute.tile import CoreGroups, TileExecutor
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
    PoolGeometry,
)

KINDS = [MaxPoolForward, MaxPoolBackward, AvePoolForward, AvePoolBackward]
GEOMETRIES = {
    "LeNet's": PoolGeometry(2, 5, (8, 8), (2, 2), (2, 2), (0, 0)),
    "overlapping, rounded up": PoolGeometry(2, 3, (8, 8), (3, 3), (2, 2), (0, 0)),
    "padded": PoolGeometry(1, 3, (7, 6), (3, 2), (2, 1), (1, 1)),
    "stride 1": PoolGeometry(1, 6, (6, 7), (3, 3), (1, 1), (1, 1)),
    "gaps": PoolGeometry(1, 9, (7, 8), (2, 2), (3, 3), (0, 0)),
    "global": PoolGeometry(3, 3, (5, 5), (5, 5), (1, 1), (0, 0)),
    "rounded down": PoolGeometry(1, 2, (9, 8), (3, 3), (2, 2), (0, 0), False),
}


def inputs_of(op, seed=3):
    """Values on a coarse grid, so that windows have ties; places from the forward direction."""
    rng = np.random.default_rng(seed)
    g = op.geometry
    src = rng.integers(-3, 4, g.src).astype(np.float32) / 4
    gradient = rng.standard_normal(g.dst).astype(np.float32)
    if isinstance(op, MaxPoolBackward):
        return [MaxPoolForward(g).reference(src)[1], gradient]
    return [src] if isinstance(op, MaxPoolForward | AvePoolForward) else [gradient]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_pooling_schedule_equals_its_definition(kind, geometry):
    op = kind(geometry)
    check_template(template(op, "pooling"), op, TOY, limit=6, inputs=inputs_of(op))


@st.composite
def geometries(draw):
    def pair(low, high):
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    kernel = pair(1, 4)
    pad = tuple(draw(st.integers(0, k - 1)) for k in kernel)
    size = pair(1, 9)
    g = PoolGeometry(
        draw(st.integers(1, 3)), draw(st.integers(1, 7)), size, kernel, pair(1, 3), pad,
        draw(st.booleans()),
    )  # fmt: skip
    assume(min(g.out_size) >= 1)
    assume(all(g.window(axis, g.out_size[axis] - 1)[0] < size[axis] for axis in (0, 1)))
    return g


@settings(deadline=None, max_examples=40)
@given(geometries(), st.sampled_from(KINDS), st.integers(0, 9))
def test_any_pooling_equals_its_definition(geometry, kind, seed):
    op = kind(geometry)
    check_template(template(op, "pooling"), op, TOY, limit=3, inputs=inputs_of(op, seed))


@pytest.mark.parametrize("executor", ["tile", "mesh"])
def test_a_window_beyond_the_image_has_no_maximum_and_no_mean(executor):
    """Rounding up without padding may add a window that holds nothing."""
    g = PoolGeometry(1, 2, (2, 3), (1, 1), (2, 2), (0, 0))
    for op in (MaxPoolForward(g), AvePoolForward(g)):
        src, results = inputs_of(op)[0], [np.zeros(o.shape, o.dtype) for o in op.outputs]
        t = template(op, "pooling")
        program = t.build(op, t.shortlist(op, TOY, 1)[0], TOY)
        if executor == "tile":
            TileExecutor(program, CoreGroups(TOY, 1)).run([src, *results])
        else:
            MeshExecutor(program, TOY).run([src, *results])
        with np.errstate(invalid="ignore"):
            wanted = op.reference(src)
        for found, reference in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(found, reference)


@pytest.mark.sw26010
@pytest.mark.parametrize("kind", KINDS)
def test_pooling_on_the_whole_mesh(kind):
    op = kind(PoolGeometry(5, 30, (12, 12), (3, 3), (2, 2), (0, 0)))
    check_template(template(op, "pooling"), op, SW26010, limit=2, inputs=inputs_of(op))


def test_a_plane_larger_than_the_ldm_is_pooled_in_strips():
    op = MaxPoolForward(PoolGeometry(1, 3, (224, 224), (2, 2), (2, 2), (0, 0)))
    t = template(op, "pooling")
    config = t.shortlist(op, SW26010, 1)[0]
    assert config["rows"] < 112
    src, (dst, index) = inputs_of(op)[0], (np.zeros(o.shape, o.dtype) for o in op.outputs)
    TileExecutor(t.build(op, config, SW26010), CoreGroups(SW26010, 1)).run([src, dst, index])
    for found, wanted in zip((dst, index), op.reference(src), strict=True):
        assert (found == wanted).all()


def test_planes_that_fit_no_ldm_are_refused():
    tiny = replace(TOY, ldm=replace(TOY.ldm, capacity_bytes=256))
    op = AvePoolForward(PoolGeometry(1, 1, (4, 100), (2, 2), (2, 2), (0, 0)))
    assert template(op, "pooling").refuse(op, tiny) == "no strip fits the LDM"
