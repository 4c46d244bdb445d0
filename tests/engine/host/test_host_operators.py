"""Every candidate of the host engine computes what the operator's definition says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swcaffe.arrays import Array
from swcaffe.engine.host import create
from swcaffe.operators import update
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.base import Operand, Operator
from swcaffe.operators.batch_norm import BatchNormBackward, BatchNormForward
from swcaffe.operators.eltwise import Dropout, EltwiseProduct, EltwiseSum
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.lrn import LrnBackward, LrnForward, LrnGeometry
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
    PoolGeometry,
)
from swcaffe.operators.softmax import (
    SoftmaxBackward,
    SoftmaxForward,
    SoftmaxLossBackward,
    SoftmaxLossForward,
)

ENGINES = [create(threads=1), create(threads=3)]


def fill(operand: Operand, rng: np.random.Generator) -> Array:
    """Values for an operand that starts one element off every vector boundary."""
    room = np.empty(operand.count + 1, operand.dtype)
    room[1:] = rng.standard_normal(operand.count)
    return room[1:].reshape(operand.shape)


def check(op: Operator, inputs: list[Array], bilinear: bool = False) -> None:
    """Same as the definition within tolerance, the same bits for each number of threads.

    The tolerance is relative to the definition's norm, and to what it is added to. Sums of products
    (`bilinear`) may cancel by luck: they count at least as the products' sizes over sqrt(terms).
    """
    rng = np.random.default_rng(1)
    before = [fill(operand, rng) for operand in op.outputs]
    results = []
    for engine in ENGINES:
        plan = engine.plan(op)
        assert plan.route != "reference", op
        outputs = [array.copy() for array in before]
        plan(*inputs, *outputs)
        results.append(outputs)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
    sizes = [0.0] * len(before)
    if bilinear:
        sums = op.reference(*(np.abs(array) for array in inputs))
        sizes = [norm(array) / op.terms**0.5 for array in sums]
    wanted = op.reference(*inputs)
    for operand, old, want, got, size in zip(
        op.outputs, before, wanted, results[0], sizes, strict=True
    ):
        want = want.reshape(got.shape).astype(np.float64)
        size = max(norm(want), size)
        if operand.accumulate:
            want, size = want + old, size + norm(old)
        error = norm(got - want)
        assert error <= op.tolerance() * size, (op, operand.name, error, size)


def norm(array: Array) -> float:
    """2-norm in double precision."""
    return float(np.linalg.norm(array.astype(np.float64)))


def random_inputs(op: Operator, seed: int = 0) -> list[Array]:
    """Normal values for every input."""
    rng = np.random.default_rng(seed)
    return [fill(operand, rng) for operand in op.inputs]


sizes = st.one_of(st.integers(1, 40), st.sampled_from([64, 100, 257]))


@settings(deadline=None, max_examples=60)
@given(
    sizes, sizes, st.one_of(sizes, st.just(1100)), st.booleans(), st.booleans(), st.integers(0, 2)
)
def test_gemm_is_the_matrix_product(m, n, k, trans_a, trans_b, extra):
    op = Gemm(m, n, k, trans_a, trans_b, accumulate=extra == 1, has_bias=extra == 2)
    check(op, random_inputs(op), bilinear=True)


def test_gemm_without_products_is_its_starting_value():
    for accumulate, has_bias in [(False, False), (True, False), (False, True)]:
        op = Gemm(3, 5, 0, accumulate=accumulate, has_bias=has_bias)
        check(op, random_inputs(op))


def test_gemm_of_no_rows_leaves_everything():
    op = Gemm(0, 5, 7)
    ENGINES[1].plan(op)(np.zeros((0, 7), "f"), np.zeros((7, 5), "f"), np.zeros((0, 5), "f"))


pool_geometries = st.builds(
    PoolGeometry,
    n=st.integers(1, 3),
    c=st.integers(1, 5),
    in_size=st.tuples(st.integers(3, 20), st.integers(3, 40)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    pad=st.just((0, 0)),
    round_up=st.booleans(),
) | st.builds(
    PoolGeometry,
    n=st.just(2),
    c=st.integers(1, 70),
    in_size=st.tuples(st.integers(3, 20), st.integers(3, 40)),
    kernel=st.tuples(st.integers(2, 3), st.integers(2, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pad=st.tuples(st.integers(0, 1), st.integers(0, 1)),
)


@settings(deadline=None, max_examples=60)
@given(pool_geometries)
def test_pooling_matches_its_definition(g):
    forward = MaxPoolForward(g)
    src = random_inputs(forward)
    check(forward, src)
    _, index = forward.reference(*src)
    backward = MaxPoolBackward(g)
    check(backward, [index, random_inputs(backward)[1]])
    if any(g.window(axis, g.out_size[axis] - 1)[2] == 0 for axis in (0, 1)):
        return  # the mean of no elements
    for op in (AvePoolForward(g), AvePoolBackward(g)):
        check(op, random_inputs(op))


def test_max_pooling_ignores_nan_and_keeps_the_first_of_equals():
    g = PoolGeometry(1, 1, (2, 4), (2, 2), (2, 2), (0, 0))
    src = np.array([[np.nan, 1, np.nan, np.nan], [1, 0, np.nan, np.nan]], np.float32)
    dst, index = np.empty((1, 2), np.float32), np.empty((1, 2), np.int32)
    ENGINES[0].plan(MaxPoolForward(g))(src, dst, index)
    assert dst[0, 0] == 1 and index.tolist() == [[1, -1]]
    assert dst[0, 1] == -np.finfo(np.float32).max


@pytest.mark.parametrize("kind", ["relu", "sigmoid", "tanh", "elu"])
@pytest.mark.parametrize("count", [1, 17, 40000])
@pytest.mark.parametrize("alpha", [0.0, 0.25])
def test_activation_matches_its_definition(kind, count, alpha):
    forward, backward = (
        ActivationForward(kind, count, alpha),
        ActivationBackward(kind, count, alpha),
    )
    check(forward, random_inputs(forward))
    src, _, diff = random_inputs(backward)
    (dst,) = forward.reference(src)
    check(backward, [src, dst, diff])


@pytest.mark.parametrize("kind", ["relu", "sigmoid", "tanh", "elu"])
def test_activation_works_in_place(kind):
    op = ActivationForward(kind, 1000, 0.1)
    (x,) = random_inputs(op)
    (want,) = op.reference(x)
    ENGINES[1].plan(op)(x, x)
    np.testing.assert_allclose(x, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(1, 1, 1), (64, 10, 1), (3, 21, 50), (2, 1000, 1)])
@pytest.mark.parametrize("ignore", [None, 0])
def test_softmax_and_its_loss_match_their_definitions(shape, ignore):
    outer, channels, inner = shape
    forward, backward = SoftmaxForward(*shape), SoftmaxBackward(*shape)
    src = random_inputs(forward)
    check(forward, src)
    check(backward, [forward.reference(*src)[0], random_inputs(forward, 3)[0]])
    labels = np.random.default_rng(2).integers(0, channels, (outer, inner)).astype(np.float32)
    loss = SoftmaxLossForward(*shape, ignore)
    check(loss, [*src, labels])
    prob = loss.reference(*src, labels)[0]
    gradient = SoftmaxLossBackward(*shape, ignore)
    check(gradient, [prob, labels, np.array([0.125], np.float32)])


@pytest.mark.parametrize("shape", [(1, 1, 1), (8, 3, 49), (100, 20, 1), (3, 70, 33)])
def test_channel_wise_operators_match_their_definitions(shape):
    for of_batch in (True, False):
        forward = BatchNormForward(*shape, 1e-5, of_batch)
        backward = BatchNormBackward(*shape, 1e-5, of_batch)
        src, *statistics = random_inputs(forward)
        check(forward, [src, *(np.abs(s) for s in statistics)])
        *first, variance, diff = random_inputs(backward, 3)
        check(backward, [*first, np.abs(variance) + np.float32(0.1), diff])
    for has_scale, has_bias in [(True, True), (True, False), (False, True)]:
        affine = AffineForward(*shape, has_scale, has_bias)
        check(affine, random_inputs(affine))
        for accumulate in (True, False):
            gradient = AffineBackwardWeights(*shape, has_scale, has_bias, accumulate)
            check(gradient, random_inputs(gradient))


@pytest.mark.parametrize("count", [1, 50, 40000])
def test_elementwise_operators_match_their_definitions(count):
    for op in (
        EltwiseSum(count, (2.0,)),
        EltwiseSum(count, (1.0, -0.5)),
        EltwiseSum(count, (1.0, 1.0, 3.0, -1.0)),
        EltwiseProduct(count, 1),
        EltwiseProduct(count, 2),
        EltwiseProduct(count, 4),
        Dropout(count, 0.3),
    ):
        check(op, random_inputs(op))


def test_five_sources_are_refused_and_run_by_the_definition():
    assert ENGINES[0].plan(EltwiseProduct(7, 5)).route == "reference"


@pytest.mark.parametrize("region", ["across", "within"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 20, 12, 13), (2, 1, 1, 1)])
@pytest.mark.parametrize(("size", "beta"), [(5, 0.75), (3, 0.5), (1, 1.0)])
def test_response_normalisation_matches_its_definition(region, shape, size, beta):
    g = LrnGeometry(*shape, size, 0.1, beta, 1.0, region)
    forward, backward = LrnForward(g), LrnBackward(g)
    (src,) = random_inputs(forward)
    check(forward, [src])
    check(backward, [src, forward.reference(src)[1], random_inputs(forward, 5)[0]])


@pytest.mark.parametrize("rule", ["Sgd", "Nesterov", "AdaGrad", "RmsProp", "AdaDelta", "Adam"])
@pytest.mark.parametrize("regularization", ["L1", "L2"])
def test_update_rules_match_their_definitions(rule, regularization):
    op = getattr(update, f"{rule}Update")(40001, regularization)
    inputs = [np.abs(array) for array in random_inputs(op)]
    inputs[0][:] = (0.01, 0.0005, 0.5)
    inputs[1] -= np.float32(0.5)
    check(op, inputs)
    wanted = op.reference(*inputs)
    ENGINES[1].plan(op)(*inputs, inputs[1], *inputs[3:])
    for got, want in zip([inputs[1], *inputs[3:]], wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
