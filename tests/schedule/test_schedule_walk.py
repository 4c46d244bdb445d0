"""Operators limited by memory: every formula, at both fidelities, against its definition."""

from __future__ import annotations

import pytest
from template_battery import check_template, template

import swcaffe.schedule.templates.walk  # noqa: F401  registers
from swcaffe.machine.toy import TOY
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.batch_norm import BatchNormBackward, BatchNormForward
from swcaffe.operators.eltwise import Dropout, EltwiseProduct, EltwiseSum
from swcaffe.operators.prelu import PReluBackwardData, PReluBackwardWeights, PReluForward
from swcaffe.operators.update import (
    AdaDeltaUpdate,
    AdaGradUpdate,
    AdamUpdate,
    NesterovUpdate,
    RmsPropUpdate,
    SgdUpdate,
)

SHAPES = [(3, 5, 7), (1, 4, 50), (9, 6, 1), (70, 1, 3)]
CHANNELED = [
    PReluForward,
    PReluBackwardData,
    PReluBackwardWeights,
    lambda *s: AffineForward(*s),
    lambda *s: AffineForward(*s, False, True),
    lambda *s: AffineForward(*s, True, True),
    lambda *s: AffineBackwardWeights(*s, True, True),
    lambda *s: AffineBackwardWeights(*s, False, True, False),
    lambda *s: BatchNormForward(*s, 1e-5),
    lambda *s: BatchNormForward(*s, 1e-5, False),
    lambda *s: BatchNormBackward(*s, 1e-5),
    lambda *s: BatchNormBackward(*s, 1e-5, False),
]
OPERATORS = [
    *(kind("relu", 200) for kind in (ActivationForward, ActivationBackward)),
    *(kind(*args) for kind in (ActivationForward, ActivationBackward) for args in (
        ("relu", 37, 0.1), ("sigmoid", 37), ("tanh", 300), ("elu", 37, 0.5),
    )),
    EltwiseSum(100, (1.0, -0.5)),
    EltwiseSum(70, (0.25,)),
    EltwiseSum(1, (1.0, 1.0, 1.0)),
    EltwiseProduct(90, 3),
    Dropout(150, 0.4),
    SgdUpdate(130, "L2", 0.9),
    SgdUpdate(130, "L1", 0.9),
    NesterovUpdate(33, "L2", 0.9),
    AdaGradUpdate(33),
    RmsPropUpdate(33),
    AdaDeltaUpdate(33),
    AdamUpdate(33),
    *(make(*shape) for make in CHANNELED for shape in SHAPES),
]  # fmt: skip


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_walk_equals_its_definition(op):
    check_template(template(op, "walk"), op, TOY, limit=4)
