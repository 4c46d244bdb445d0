"""Recurrent, table, layout, loss and learned-slope operators on the host engine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_host_operators import ENGINES, check, norm, random_inputs

from swcaffe.errors import DataError
from swcaffe.operators.base import Operator
from swcaffe.operators.eltwise import EltwiseMax, EltwiseMaxBackward
from swcaffe.operators.embed import EmbedBackward, EmbedForward
from swcaffe.operators.layout import Concat, Slice
from swcaffe.operators.loss import (
    AccuracyCount,
    EuclideanLossForward,
    SigmoidLossBackward,
    SigmoidLossForward,
)
from swcaffe.operators.pooling import PoolGeometry
from swcaffe.operators.prelu import PReluBackwardData, PReluBackwardWeights, PReluForward
from swcaffe.operators.recurrent import (
    LstmBackward,
    LstmForward,
    LstmUnitBackward,
    LstmUnitForward,
    RnnBackward,
    RnnForward,
)
from swcaffe.operators.softmax import SoftmaxLossBackward, SoftmaxLossForward
from swcaffe.operators.stochastic_pooling import StochasticPoolForward

SEQUENCES = st.tuples(st.integers(1, 5), st.integers(1, 33), st.integers(1, 70))


def sequence_inputs(op: Operator) -> list[np.ndarray]:
    """Small weights, as products through all steps must not blow up; cont 0, 1 and between."""
    inputs = random_inputs(op)
    rng = np.random.default_rng(5)
    for operand, array in zip(op.inputs, inputs, strict=True):
        if operand.name == "weights":
            array *= np.float32(0.5 / array.shape[-1] ** 0.5)
        if operand.name == "cont":
            array[...] = rng.choice([0.0, 1.0, 1.0, 0.25], array.shape)
    return inputs


@settings(deadline=None, max_examples=40)
@given(SEQUENCES)
def test_lstm_sequences_match_their_definition(shape):
    forward, backward = LstmForward(*shape), LstmBackward(*shape)
    inputs = sequence_inputs(forward)
    check(forward, inputs)
    _, c, gates, _ = forward.reference(*inputs)
    _, cont, weights, _, c0 = inputs
    diff_h = random_inputs(backward, 7)[-1]
    check(backward, [cont, weights, c0, c, gates, diff_h])


@settings(deadline=None, max_examples=40)
@given(SEQUENCES)
def test_rnn_sequences_match_their_definition(shape):
    forward, backward = RnnForward(*shape), RnnBackward(*shape)
    inputs = sequence_inputs(forward)
    check(forward, inputs)
    _, cont, weights, _ = inputs
    check(backward, [cont, weights, forward.reference(*inputs)[0], random_inputs(backward, 7)[-1]])


def test_a_sequence_whose_gates_replace_pre_is_the_same():
    op = LstmForward(3, 4, 40)
    inputs = sequence_inputs(op)
    wanted = op.reference(*inputs)
    outputs = [np.empty(o.shape, np.float32) for o in op.outputs]
    outputs[2] = inputs[0]
    ENGINES[1].plan(op)(*inputs, *outputs)
    for got, want in zip(outputs, wanted, strict=True):
        assert norm(got - want) <= op.tolerance() * norm(want)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 9), st.integers(1, 70))
def test_single_lstm_steps_match_their_definition(n, d):
    forward, backward = LstmUnitForward(n, d), LstmUnitBackward(n, d)
    check(forward, sequence_inputs(forward))
    check(backward, sequence_inputs(backward))


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 5), st.integers(1, 20), st.integers(1, 50))
def test_learned_slopes_match_their_definition(outer, channels, inner):
    for op in (PReluForward, PReluBackwardData, PReluBackwardWeights):
        check(op(outer, channels, inner), random_inputs(op(outer, channels, inner)))


@pytest.mark.parametrize("count", [1, 50, 40000])
@pytest.mark.parametrize("arity", [2, 3, 4])
def test_maxima_and_their_gradients_match_the_definition(count, arity):
    op = EltwiseMax(count, arity)
    inputs = [np.round(array) for array in random_inputs(op)]  # many ties
    check(op, inputs)
    index = op.reference(*inputs)[1]
    for which in range(arity):
        back = EltwiseMaxBackward(count, which)
        check(back, [index, random_inputs(back, 3)[1]])


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 5),
    st.lists(st.sampled_from([0, 1, 2, 15, 100, 9000]), min_size=1, max_size=16),
    st.data(),
)
def test_joined_and_cut_rows_are_the_same_values(outer, widths, data):
    op = Concat(outer, tuple(widths))
    check(op, random_inputs(op))
    wanted = data.draw(st.lists(st.integers(0, len(widths) - 1), unique=True, min_size=1))
    cut = Slice(outer, tuple(widths), tuple(wanted))
    check(cut, random_inputs(cut))


def test_more_pieces_than_the_table_holds_run_by_the_definition():
    assert ENGINES[0].plan(Concat(2, (1,) * 17)).route == "reference"
    assert ENGINES[0].plan(Slice(2, (1,) * 40, tuple(range(16)))).route != "reference"


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 60), st.integers(1, 30), st.integers(1, 300), st.booleans())
def test_table_rows_are_looked_up_and_added_to(count, rows, width, has_bias):
    forward, backward = (
        EmbedForward(count, rows, width, has_bias),
        EmbedBackward(count, rows, width),
    )
    index = np.random.default_rng(3).integers(0, rows, count).astype(np.float32)
    check(forward, [index, *random_inputs(forward)[1:]])
    check(backward, [index, random_inputs(backward)[1]])


@pytest.mark.parametrize("count", [1, 100, 20000])
def test_losses_of_pairs_match_their_definition(count):
    loss = EuclideanLossForward(count)
    check(loss, random_inputs(loss))
    for ignore in (None, 1):
        forward, backward = SigmoidLossForward(count, ignore), SigmoidLossBackward(count, ignore)
        src = random_inputs(forward)[0] * np.float32(20)
        target = np.random.default_rng(4).integers(0, 3, count).astype(np.float32)
        check(forward, [src, target])
        check(backward, [src, target, np.array([0.25], np.float32)])


@pytest.mark.parametrize("shape", [(1, 1, 1), (64, 10, 1), (3, 21, 50)])
@pytest.mark.parametrize(("top_k", "ignore"), [(1, None), (3, None), (1, 0)])
def test_accuracy_counts_match_their_definition(shape, top_k, ignore):
    op = AccuracyCount(*shape, top_k, ignore)
    src = np.round(random_inputs(op)[0])  # many ties
    labels = np.random.default_rng(2).integers(0, shape[1], (shape[0], shape[2]))
    check(op, [src, labels.astype(np.float32)])


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 3), st.tuples(st.integers(3, 9), st.integers(3, 9)), st.integers(1, 3),
    st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_stochastic_pooling_matches_its_definition(c, size, kernel, stride, training):
    g = PoolGeometry(2, c, size, (kernel,) * 2, (stride,) * 2, (0, 0), round_up=kernel >= stride)
    op = StochasticPoolForward(g, training)
    rng = np.random.default_rng(6)
    inputs = [rng.random(o.shape, np.float32) for o in op.inputs]
    check(op, inputs)


@pytest.mark.parametrize("wrong", [-1.0, 5.0, 1e9, -1e18, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "op",
    [
        SoftmaxLossForward(6, 5, 3),
        SoftmaxLossBackward(6, 5, 3),
        AccuracyCount(6, 5, 3),
        EmbedForward(18, 5, 4),
        EmbedBackward(18, 5, 4),
    ],
    ids=lambda op: type(op).__name__,
)
def test_an_index_outside_the_range_is_an_error_and_touches_no_foreign_memory(op, wrong):
    inputs = [np.abs(array) for array in random_inputs(op)]
    (index,) = [i for i, o in enumerate(op.inputs) if o.name in ("labels", "index")]
    inputs[index][...] = 1
    inputs[index].reshape(-1)[7] = wrong
    around = [np.full(o.count + 200, 77, o.dtype) for o in op.outputs]
    outputs = [a[100:-100].reshape(o.shape) for a, o in zip(around, op.outputs, strict=True)]
    plan = ENGINES[1].plan(op)
    name = op.inputs[index].name
    with pytest.raises(DataError, match=rf"value 7 of {name} is not in 0 … 4"):
        plan(*inputs, *outputs)
    for array in around:
        assert (array[:100] == 77).all() and (array[-100:] == 77).all()
    inputs[index].reshape(-1)[7] = 2
    plan(*inputs, *outputs)
