"""Four core groups share the batch: same bits as one, whichever is first; work adds up; time falls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from template_battery import random_arrays, template

from swcaffe.cost.count import count
from swcaffe.cost.model import CostModel
from swcaffe.cost.rates import group_of
from swcaffe.engine.engine import create_engine
from swcaffe.errors import LdmError
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.ir.buffer import Along
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.intrinsics.fill import Zero
from swcaffe.ir.stmt import Reply
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.activation import ActivationForward
from swcaffe.operators.batch_norm import BatchNormBackward
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.templates import (  # noqa: F401  each registers itself
    conv_im2col,
    conv_ldm,
    conv_weights,
    conv_weights_ldm,
    gemm,
    walk,
)

FOUR = replace(TOY, name="four", core_groups=4, ldm=replace(TOY.ldm, capacity_bytes=16384))
G = ConvGeometry(8, 3, 4, (6, 6), (3, 3), (1, 1), (1, 1), (1, 1))
LAYERS = [
    (ConvForward(G, True), "conv_forward_ldm"),
    (ConvBackwardData(G), "conv_backward_data_ldm"),
    (ConvBackwardWeights(G, True, True), "conv_backward_weights_ldm"),
    (ConvBackwardWeights(G, True, True), "conv_backward_weights_im2col"),
    (Gemm(70, 40, 30), "gemm"),
    (ActivationForward("relu", 999), "walk"),
    (BatchNormBackward(3, 20, 8, 1e-5), "walk"),
]


@pytest.mark.parametrize(("op", "name"), LAYERS, ids=lambda value: str(value)[:40])
def test_core_groups_that_share_a_layer_give_the_bits_of_one(op, name):
    t = template(op, name)
    inputs, outputs = random_arrays(op)
    configs = t.shortlist(op, FOUR, 50)
    program = t.build(op, configs[-1], FOUR)
    results, counts = [], []
    for groups, reverse in ((1, False), (4, False), (4, True), (3, False)):
        found = [out.copy() for out in outputs]
        executor = MeshExecutor(program, FOUR, groups, reverse=reverse)
        counts.append(executor.run([*inputs, *found]))
        results.append(found)
        assert len(executor.by_group) == groups
        assert sum(part.dma_bytes for part in executor.by_group) == counts[-1].dma_bytes
    for found, events in zip(results[1:], counts[1:], strict=True):
        for a, b in zip(results[0], found, strict=True):
            assert (a.view(np.int32) == b.view(np.int32)).all()
        assert events.differences(counts[0]) == []
    assert count(program, FOUR).differences(counts[0]) == []


def test_every_core_group_takes_its_part_of_the_batch():
    op = ConvForward(G, True)
    t = template(op, "conv_forward_ldm")
    program = t.build(op, t.shortlist(op, FOUR, 1)[0], FOUR)
    inputs, outputs = random_arrays(op)
    executor = MeshExecutor(program, FOUR)
    executor.run([*inputs, *outputs])
    flops = [part.flops for part in executor.by_group]
    assert flops == [flops[0]] * 4 and flops[0] > 0


def test_a_core_group_does_not_see_what_another_has_in_its_ldm():
    b = Builder("stray", (2, 2))
    y = b.param("y", (4, 4, 4))
    tile = b.tile("t", (1, 4, 4), (Along.NONE, Along.ROW, Along.COL))
    b.apply(Zero(), box(tile))
    with b.loop("g", 4, parallel=True) as g:
        b.put(box(tile), box(y, (g, 1)), Reply("r"))
        b.wait(Reply("r"))
    program = b.build()
    MeshExecutor(program, FOUR, 1).run([np.zeros(64, np.float32)])
    with pytest.raises(LdmError, match=r"CPE \(0, 0\) puts from t, which was never written"):
        MeshExecutor(program, FOUR).run([np.zeros(64, np.float32)])


LARGE = ConvForward(ConvGeometry(64, 16, 32, (12, 12), (3, 3), (1, 1), (1, 1), (1, 1)), True)


@pytest.mark.parametrize("op", [LARGE, ActivationForward("relu", 1 << 20)], ids=str)
def test_the_chip_is_faster_than_a_core_group_and_at_most_four_times(op):
    plan = create_engine("sw26010", fidelity="mesh").plan(op)
    one, four = plan.estimate(), plan.chip_estimate()
    assert one.seconds / 4 - SW26010.launch_s <= four.seconds < one.seconds
    assert f"on 4 core groups {four.seconds * 1e6:.1f} us" in plan.explain()
    assert (one.dma_bytes, one.flops) == (four.dma_bytes, four.flops)


def test_core_groups_keep_their_rate_until_the_memory_is_busy():
    """All sources give the chip four times the bandwidth of a group, whichever figure they give."""
    assert group_of(SW26010, 4) == SW26010
    narrow = replace(SW26010, memory_bytes_per_s=56e9)
    assert group_of(narrow, 2).dma.peak_bytes_per_s == 28e9
    assert group_of(narrow, 4).dma.peak_bytes_per_s == 14e9
    op = ActivationForward("relu", 1 << 20)
    t = template(op, "walk")
    program = t.build(op, t.shortlist(op, SW26010, 1)[0], SW26010)
    wide, shared = (CostModel(m).price(program, 4).resources["DMA"] for m in (SW26010, narrow))
    assert shared == pytest.approx(2 * wide)
