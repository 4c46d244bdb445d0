"""The closed model beside the time line of what the mesh executor did, for programs of all kinds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from swcaffe.cost.model import CostModel
from swcaffe.cost.timeline import timeline
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.machine.toy import TOY
from swcaffe.operators.activation import ActivationBackward
from swcaffe.operators.affine import AffineForward
from swcaffe.operators.batch_norm import BatchNormForward
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.layout import Concat
from swcaffe.operators.lrn import LrnForward, LrnGeometry
from swcaffe.operators.pooling import AvePoolForward, MaxPoolForward, PoolGeometry
from swcaffe.operators.update import SgdUpdate
from swcaffe.schedule.template import TEMPLATES
from swcaffe.schedule.templates import (  # noqa: F401  each registers itself
    conv_im2col,
    conv_ldm,
    conv_weights,
    conv_weights_ldm,
    gemm,
    join,
    lrn,
    pooling,
    walk,
)

SMALL = replace(TOY, name="small", ldm=replace(TOY.ldm, capacity_bytes=16384))


def random_operator(rng):
    """One of all kinds, of a size that takes milliseconds."""
    n, c, h = (int(rng.integers(*span)) for span in ((1, 7), (1, 9), (4, 13)))
    k = int(rng.integers(1, 4))
    conv = ConvGeometry(n, c, int(rng.integers(1, 9)), (h, h), (k, k), (1, 1), (0, 0), (1, 1))
    pool = PoolGeometry(n, c, (h, h), (2, 2), (2, 2), (0, 0))
    m, other, depth = (int(rng.integers(1, 60)) for _ in range(3))
    kinds = [
        ConvForward(conv), ConvBackwardData(conv), ConvBackwardWeights(conv),
        Gemm(m, other, depth), Gemm(m, other, depth, trans_a=True, accumulate=True),
        ActivationBackward("relu", m * depth), AffineForward(n, c, h * h, True, True),
        BatchNormForward(n, c, h * h, 1e-5), SgdUpdate(m * depth, "L2", 0.9),
        MaxPoolForward(pool), AvePoolForward(pool), Concat(m, (other, depth)),
        LrnForward(LrnGeometry(n, c, h, h, 3, 1e-4, 0.75)),
    ]  # fmt: skip
    return kinds[int(rng.integers(len(kinds)))]


def random_program(rng):
    while True:
        op = random_operator(rng)
        able = [t for t in TEMPLATES[type(op)] if t.refuse(op, SMALL) is None]
        if able:
            t = able[int(rng.integers(len(able)))]
            configs = list(t.space(op, SMALL))
            return op, t.build(op, configs[int(rng.integers(len(configs)))], SMALL)


def traced(op, program, core_groups):
    arrays = [np.ones(o.shape, o.dtype) for o in (*op.inputs, *op.outputs)]
    events = []
    MeshExecutor(program, SMALL, core_groups).run(arrays, events)
    return timeline(events, SMALL, core_groups)


@pytest.mark.slow
@pytest.mark.parametrize("core_groups", [1, 2])
def test_closed_model_and_time_line_agree_over_random_programs(core_groups):
    rng = np.random.default_rng(5)
    prices, lines = [], []
    for _ in range(200):
        op, program = random_program(rng)
        price = CostModel(SMALL).price(program, core_groups)
        prices.append(price.seconds - price.resources["launch"])
        lines.append(traced(op, program, core_groups).seconds)
    errors = np.abs(np.array(prices) / np.array(lines) - 1)
    ranks = [np.argsort(np.argsort(values)) for values in (prices, lines)]
    assert errors.mean() <= 0.05
    assert np.corrcoef(*ranks)[0, 1] >= 0.98


def test_resources_are_busy_as_long_as_the_model_says_and_do_one_thing_at_a_time():
    op = Gemm(40, 40, 60)
    t = TEMPLATES[Gemm][0]
    program = t.build(op, next(iter(t.space(op, SMALL))), SMALL)
    price, line = CostModel(SMALL).price(program), traced(op, program, 1)
    for resource in ("P0", "P1", "DMA"):
        assert line.busy(resource) == pytest.approx(price.resources[resource], rel=0.02)
        parts = [part for part in line.intervals if part.resource == resource]
        for before, after in pairwise(parts):
            assert after.start_s >= before.end_s - 1e-15
    buses = max(line.busy("row bus"), line.busy("column bus"))
    assert buses == pytest.approx(price.resources["register bus"])
    idle = line.busy("wait") + line.busy("P0") + line.busy("P1")
    assert idle == pytest.approx(line.seconds)


def test_core_groups_work_at_the_same_time():
    op = ActivationBackward("relu", 8000)
    t = TEMPLATES[ActivationBackward][0]
    program = t.build(op, t.shortlist(op, SMALL, 1)[0], SMALL)
    one, two = traced(op, program, 1), traced(op, program, 2)
    assert {part.core_group for part in two.intervals} == {0, 1}
    assert two.seconds == pytest.approx(one.seconds / 2, rel=0.1)
    assert any(part.what.startswith("map(") for part in two.intervals)
