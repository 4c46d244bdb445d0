"""Generated C of operators limited by memory: vector code as loops, sums of channels, pooling."""

from __future__ import annotations

import numpy as np
import pytest
from host_battery import build, check, needs_gcc, programs_of

from swcaffe.codegen.formulas import OPERATION_TEXT
from swcaffe.ir.vector import OPERATIONS
from swcaffe.machine.sw26010 import SW26010
from swcaffe.machine.toy import TOY
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.batch_norm import BatchNormBackward, BatchNormForward
from swcaffe.operators.eltwise import EltwiseSum
from swcaffe.operators.layout import Concat, Slice
from swcaffe.operators.lrn import LrnBackward, LrnForward, LrnGeometry
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
    PoolGeometry,
)
from swcaffe.operators.prelu import PReluBackwardWeights
from swcaffe.operators.update import AdaGradUpdate, NesterovUpdate, SgdUpdate
from swcaffe.schedule.templates import join, lrn, pooling, walk  # noqa: F401  each registers itself

ELEMENTWISE = {
    "relu": ActivationForward("relu", 200),
    "leaky": ActivationBackward("relu", 37, 0.1),
    "tanh": ActivationForward("tanh", 300),
    "sigmoid": ActivationForward("sigmoid", 37),
    "elu": ActivationForward("elu", 37, 0.5),
    "sum": EltwiseSum(100, (1.0, -0.5)),
    "sgd": SgdUpdate(130, "L1", 0.9),
    "nesterov": NesterovUpdate(33, "L2", 0.9),
    "adagrad": AdaGradUpdate(33),
    "scale": AffineForward(3, 5, 7, True, True),
    "scale_weights": AffineBackwardWeights(9, 6, 1, True, True),
    "prelu_weights": PReluBackwardWeights(1, 4, 50),
    "norm": BatchNormForward(3, 5, 7, 1e-5),
    "norm_back": BatchNormBackward(3, 5, 7, 1e-5),
}
ROWS = {
    "concat": Concat(3, (5, 8, 70)),
    "slice": Slice(3, (5, 8, 70), (0, 1, 2)),
    "lrn": LrnForward(LrnGeometry(2, 7, 3, 4, 5, 1e-2, 0.75)),
    "lrn_back": LrnBackward(LrnGeometry(2, 7, 3, 4, 5, 1e-2, 0.75)),
}
GEOMETRIES = {
    "lenet": PoolGeometry(2, 5, (8, 8), (2, 2), (2, 2), (0, 0)),
    "overlap": PoolGeometry(2, 3, (8, 8), (3, 3), (2, 2), (0, 0)),
    "padded": PoolGeometry(1, 3, (7, 6), (3, 2), (2, 1), (1, 1)),
    "gaps": PoolGeometry(1, 9, (7, 8), (2, 2), (3, 3), (0, 0)),
}
SQUARES = {"history", "gradients", "steps", "v", "variance", "scale"}


def operands(op, seed=3):
    """All arrays; squares where they must be, ties for maxima, places that a maximum left."""
    rng = np.random.default_rng(seed)
    found = []
    for operand in (*op.inputs, *op.outputs):
        values = rng.standard_normal(operand.shape)
        values = values * values if operand.name in SQUARES else values
        found.append(values.astype(operand.dtype))
    if isinstance(op, MaxPoolForward | MaxPoolBackward):
        src = rng.integers(-3, 4, op.geometry.src).astype(np.float32)
        forward = isinstance(op, MaxPoolForward)
        found[0] = src if forward else MaxPoolForward(op.geometry).reference(src)[1]
    return found


def check_all(directory, operators, machine):
    programs = {}
    for name, op in operators.items():
        (program,) = programs_of(op, machine).values()
        programs[name] = program
    build(directory, programs, machine)
    for name, op in operators.items():
        check(directory, name, op, programs[name], machine, operands(op))


def pools():
    for name, g in GEOMETRIES.items():
        for kind in (MaxPoolForward, MaxPoolBackward, AvePoolForward, AvePoolBackward):
            yield f"{name}_{kind.__name__}", kind(g)


@needs_gcc
@pytest.mark.slow
def test_formulas_on_four_cpes(tmp_path):
    check_all(tmp_path, {**ELEMENTWISE, **ROWS}, TOY)


@needs_gcc
@pytest.mark.slow
def test_pooling_on_four_cpes(tmp_path):
    check_all(tmp_path, dict(pools()), TOY)


@needs_gcc
@pytest.mark.slow
@pytest.mark.sw26010
def test_formulas_and_pooling_on_the_whole_mesh(tmp_path):
    check_all(tmp_path, {**ELEMENTWISE, **ROWS, **dict(pools())}, SW26010)


def test_every_vector_operation_has_c_text():
    assert set(OPERATION_TEXT) == set(OPERATIONS)
