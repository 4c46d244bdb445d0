"""Every operator as a description: a key, operands that fit its definition, honest counts."""

from __future__ import annotations

import numpy as np
import pytest

from swcaffe.engine.engine import Engine
from swcaffe.errors import ShapeError
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.base import Operator
from swcaffe.operators.batch_norm import BatchNormBackward, BatchNormForward
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.operators.crop import CropBackward, CropForward, CropGeometry
from swcaffe.operators.eltwise import (
    Dropout,
    EltwiseMax,
    EltwiseMaxBackward,
    EltwiseProduct,
    EltwiseSum,
)
from swcaffe.operators.embed import EmbedBackward, EmbedForward
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.im2col import Col2im, Im2col
from swcaffe.operators.layout import Concat, Slice
from swcaffe.operators.likelihood import (
    InfogainBackward,
    InfogainForward,
    LogLossBackward,
    LogLossForward,
)
from swcaffe.operators.loss import (
    AccuracyCount,
    EuclideanLossForward,
    SigmoidLossBackward,
    SigmoidLossForward,
)
from swcaffe.operators.lrn import LrnBackward, LrnForward, LrnGeometry
from swcaffe.operators.margin import (
    ContrastiveBackward,
    ContrastiveForward,
    HingeBackward,
    HingeForward,
)
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
    PoolGeometry,
)
from swcaffe.operators.prelu import PReluBackwardData, PReluBackwardWeights, PReluForward
from swcaffe.operators.recurrent import (
    LstmBackward,
    LstmForward,
    LstmUnitBackward,
    LstmUnitForward,
    RnnBackward,
    RnnForward,
)
from swcaffe.operators.reduction import ReduceBackward, ReduceForward, ReduceKind
from swcaffe.operators.softmax import (
    SoftmaxBackward,
    SoftmaxForward,
    SoftmaxLossBackward,
    SoftmaxLossForward,
)
from swcaffe.operators.standardize import StandardizeBackward, StandardizeForward
from swcaffe.operators.stochastic_pooling import StochasticPoolForward
from swcaffe.operators.top_k import TopK
from swcaffe.operators.unary import UnaryBackward, UnaryForward, UnaryKind

CONV = ConvGeometry(2, 4, 6, (5, 4), (3, 2), (1, 2), (1, 0), (1, 1), 2)
POOL = PoolGeometry(2, 3, (5, 4), (3, 3), (2, 2), (1, 1))
LRN = LrnGeometry(2, 4, 3, 3, 3, 0.5, 0.75)
WITHIN = LrnGeometry(2, 4, 3, 3, 3, 0.5, 0.75, region="within")
VIEW = (2, 3, 4)
BLOCK = CropGeometry((2, 3, 4), (2, 1, 2), (0, 2, 1))
SUMS: tuple[ReduceKind, ...] = ("sum", "asum", "sumsq")

SLOPED: dict[UnaryKind, tuple[float, ...]] = {
    "abs": (),
    "bnll": (),
    "clip": (0.2, 0.7),
    "exp": (0.5, -0.25),
    "log": (2.0, 0.5, 1.5),
    "power": (1.5, 0.5, 0.25),
    "swish": (2.0,),
}

OPERATORS: list[Operator] = [
    *(ActivationForward(kind, 6, 0.5) for kind in ("relu", "sigmoid", "tanh", "elu")),
    *(ActivationBackward(kind, 6, 0.5) for kind in ("relu", "sigmoid", "tanh", "elu")),
    AffineForward(*VIEW),
    AffineForward(*VIEW, has_scale=False, has_bias=True),
    AffineBackwardWeights(*VIEW, has_bias=True),
    AffineBackwardWeights(*VIEW, has_scale=False, has_bias=True, accumulate=False),
    *(BatchNormForward(*VIEW, eps=1e-5, of_batch=flag) for flag in (True, False)),
    *(BatchNormBackward(*VIEW, eps=1e-5, of_batch=flag) for flag in (True, False)),
    ConvForward(CONV),
    ConvBackwardData(CONV),
    ConvBackwardWeights(CONV),
    Dropout(6, 0.5),
    EltwiseSum(6, (1.0, -2.0)),
    EltwiseProduct(6, 3),
    EltwiseMax(6, 3),
    EltwiseMaxBackward(6, 1),
    EmbedForward(5, 2, 3),
    EmbedBackward(5, 2, 3),
    Gemm(3, 4, 5, has_bias=True),
    Gemm(3, 4, 5, trans_a=True, trans_b=True, accumulate=True),
    Concat(2, (1, 2, 3)),
    Slice(2, (1, 2, 3), (0, 2)),
    AccuracyCount(*VIEW, ignore_label=1),
    EuclideanLossForward(6),
    SigmoidLossForward(6, 0),
    SigmoidLossBackward(6, 0),
    *(LrnForward(g) for g in (LRN, WITHIN)),
    *(LrnBackward(g) for g in (LRN, WITHIN)),
    AvePoolForward(POOL),
    AvePoolBackward(POOL),
    MaxPoolForward(POOL),
    MaxPoolBackward(POOL),
    PReluForward(*VIEW),
    PReluBackwardData(*VIEW),
    PReluBackwardWeights(*VIEW),
    LstmForward(3, 2, 4),
    LstmBackward(3, 2, 4),
    LstmUnitForward(2, 4),
    LstmUnitBackward(2, 4),
    RnnForward(3, 2, 4),
    RnnBackward(3, 2, 4),
    SoftmaxForward(*VIEW),
    SoftmaxBackward(*VIEW),
    SoftmaxLossForward(*VIEW, ignore_label=1),
    SoftmaxLossBackward(*VIEW),
    *(StandardizeForward(3, 4, 1e-3, flag) for flag in (True, False)),
    *(StandardizeBackward(3, 4, flag) for flag in (True, False)),
    *(UnaryForward(kind, 6, args) for kind, args in SLOPED.items()),
    *(UnaryBackward(kind, 6, args) for kind, args in SLOPED.items()),
    UnaryForward("threshold", 6, (0.5,)),
    CropForward(BLOCK),
    CropBackward(BLOCK),
    Im2col(CONV),
    Col2im(CONV),
    *(ReduceForward(kind, *VIEW, 0.5) for kind in SUMS),
    *(ReduceBackward(kind, *VIEW, 0.5) for kind in SUMS),
    TopK(*VIEW, 2),
    LogLossForward(3, 4),
    LogLossBackward(3, 4),
    InfogainForward(*VIEW),
    InfogainBackward(*VIEW, ignore_label=1),
    *(HingeForward(3, 4, flag) for flag in (True, False)),
    *(HingeBackward(3, 4, flag) for flag in (True, False)),
    *(ContrastiveForward(3, 4, 1.0, flag) for flag in (True, False)),
    *(ContrastiveBackward(3, 4, 1.0, flag) for flag in (True, False)),
    *(StochasticPoolForward(POOL, flag) for flag in (True, False)),
]

WHOLE = {"labels", "index"}
"""Operands that hold class, row or source numbers: 0 or 1 fits everywhere."""


def arrays_of(op: Operator, rng: np.random.Generator) -> list[np.ndarray]:
    """Positive inputs (variances, scales), whole numbers where they are needed."""
    inputs = [
        (rng.integers(0, 2, o.shape) if o.name in WHOLE else rng.uniform(0.1, 0.9, o.shape)).astype(
            o.dtype
        )
        for o in op.inputs
    ]
    return [*inputs, *(np.zeros(o.shape, o.dtype) for o in op.outputs)]


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_a_description_fits_its_definition(op: Operator, rng: np.random.Generator) -> None:
    assert hash(op) == hash(op)
    assert OPERATORS.count(op) == 1
    arrays = arrays_of(op, rng)
    op.check(*arrays)
    before = [a.copy() for a in arrays[: len(op.inputs)]]
    results = op.reference(*arrays[: len(op.inputs)])
    assert len(results) == len(op.outputs)
    for operand, result in zip(op.outputs, results, strict=True):
        assert result.size == operand.count, operand.name
        assert result.dtype == operand.dtype, operand.name
        assert np.isfinite(result).all(), operand.name
    for a, b in zip(arrays, before, strict=False):
        assert np.array_equal(a, b), "the definition changed an input"
    assert op.flops >= 0
    assert op.terms >= 1
    assert 0 < op.tolerance() < 1e-4


@pytest.mark.parametrize("op", [op for op in OPERATORS if op.aliases], ids=str)
def test_aliased_operands_give_the_same_result(
    op: Operator, engine: Engine, rng: np.random.Generator
) -> None:
    plan = engine.plan(op)
    names = [o.name for o in op.inputs + op.outputs]
    apart, together = arrays_of(op, rng), []
    together = [a.copy() for a in apart]
    for source, target in op.aliases:
        together[names.index(target, len(op.inputs))] = together[names.index(source)]
    plan(*apart)
    plan(*together)
    for i in range(len(op.inputs), len(names)):
        assert np.array_equal(apart[i], together[i]), names[i]


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_an_engine_agrees_with_the_definition(
    op: Operator, engine: Engine, rng: np.random.Generator
) -> None:
    arrays = arrays_of(op, rng)
    for operand, out in zip(op.outputs, arrays[len(op.inputs) :], strict=True):
        out.fill(1 if operand.accumulate else -77)
    wanted = op.reference(*arrays[: len(op.inputs)])
    engine.plan(op)(*arrays)
    for operand, out, result in zip(op.outputs, arrays[len(op.inputs) :], wanted, strict=True):
        expected = result.reshape(out.shape) + (1 if operand.accumulate else 0)
        error = np.linalg.norm(out.astype(np.float64) - expected)
        assert error <= op.tolerance() * max(np.linalg.norm(expected), 1e-30), operand.name


def test_flops_are_those_of_the_textbook() -> None:
    assert Gemm(3, 4, 5).flops == 2 * 60
    assert ConvForward(CONV, has_bias=False).flops == 2 * 2 * 6 * 5 * 2 * (2 * 6)
    assert EltwiseSum(10, (1.0, 1.0)).flops == 10
    assert EltwiseSum(10, (1.0, 2.0)).flops == 20
    assert Concat(2, (1, 2)).flops == Slice(2, (1, 2), (0,)).flops == 0
    assert LstmForward(3, 2, 4).flops == 3 * (2 * 2 * 16 * 4 + 15 * 2 * 4)


def test_arrays_that_do_not_fit_are_refused() -> None:
    op = EltwiseSum(6, (1.0, 1.0))
    good = np.zeros(6, np.float32)
    for wrong in (np.zeros(5, np.float32), np.zeros(6), np.zeros(12, np.float32)[::2]):
        with pytest.raises(ShapeError, match="operand src1 of EltwiseSum"):
            op.check(good, wrong, good)
    with pytest.raises(ShapeError, match="takes 3 arrays, got 2"):
        op.check(good, good)
