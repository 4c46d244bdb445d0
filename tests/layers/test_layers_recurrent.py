"""LSTM, RNN and LSTMUnit against plain loops; carried states, `cont`, static input."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import NetError, ParameterError, ShapeError

FILL = 'weight_filler { type: "gaussian" std: 0.5 } bias_filler { type: "uniform" }'
D = 3


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def lstm_by_loops(blobs, x, cont, static=None, h=None, c=None):
    weights, bias, *rest = blobs
    state = rest[-1]
    out = np.zeros((*x.shape[:2], D))
    for n in range(x.shape[1]):
        hn = np.zeros(D) if h is None else h[0, n]
        cn = np.zeros(D) if c is None else c[0, n]
        for t in range(x.shape[0]):
            z = weights @ x[t, n].reshape(-1) + bias + state @ (cont[t, n] * hn)
            if static is not None:
                z = z + rest[0] @ static[n].reshape(-1)
            i, f, o, g = np.split(z, 4)
            cn = cont[t, n] * sigmoid(f) * cn + sigmoid(i) * np.tanh(g)
            hn = sigmoid(o) * np.tanh(cn)
            out[t, n] = hn
    return out


def rnn_by_loops(blobs, x, cont, static=None, h=None):
    weights, bias, *rest = blobs
    state, output, output_bias = rest[-3:]
    out = np.zeros((*x.shape[:2], D))
    for n in range(x.shape[1]):
        hn = np.zeros(D) if h is None else h[0, n]
        for t in range(x.shape[0]):
            z = weights @ x[t, n].reshape(-1) + bias + state @ (cont[t, n] * hn)
            if static is not None:
                z = z + rest[0] @ static[n].reshape(-1)
            hn = np.tanh(z)
            out[t, n] = np.tanh(output @ hn + output_bias)
    return out


LOOPS = {"LSTM": lstm_by_loops, "RNN": rnn_by_loops}
STATES = {"LSTM": 2, "RNN": 1}


def params(more: str = "") -> str:
    return f"recurrent_param {{ num_output: {D} {FILL} {more} }}"


def double(one: OneLayer) -> list[np.ndarray]:
    return [blob.data.astype(np.float64) for blob in one.layer.blobs]


def sequence(rng, t: int = 4, n: int = 2) -> tuple[np.ndarray, np.ndarray]:
    cont = np.ones((t, n), np.float32)
    cont[0] = 0
    cont[2, 1] = 0
    return rng.normal(size=(t, n, 2)).astype(np.float32), cont


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("static", [False, True])
def test_recurrence_matches_loops(kind: str, static: bool, engine: Engine, rng) -> None:
    small = rng.normal(scale=0.2, size=(2, 3)).astype(np.float32)
    bottoms = [*sequence(rng), small][: 2 + static]
    one = check_layer(
        kind,
        params(),
        bottoms,
        engine=engine,
        flags=[True, False, True][: 2 + static],
        step=4e-3,  # the static input acts in every step: strongly curved
        batch_axis=None,
    )
    assert_near(one.forward(*bottoms)[0], LOOPS[kind](double(one), *bottoms))


@pytest.mark.parametrize("kind", LOOPS)
def test_exposed_states_go_in_and_come_out(kind: str, engine: Engine, rng) -> None:
    x, _ = sequence(rng)
    count = STATES[kind]
    start = [rng.normal(size=(1, 2, D)).astype(np.float32) for _ in range(count)]
    cont = np.ones((4, 2), np.float32)
    text = layer_text(kind, params("expose_hidden: true"), 2 + count, 1 + count)
    one = OneLayer(text, [x, cont, *start], engine)
    y, *last = one.forward()
    assert_near(y, LOOPS[kind](double(one), x, cont, None, *start))
    if kind == "LSTM":
        assert np.array_equal(last[0][0], y[-1])
    halves = [OneLayer(text, [x[i : i + 2], cont[:2], *start], engine) for i in (0, 2)]
    for half in halves:
        for mine, theirs in zip(half.layer.blobs, one.layer.blobs, strict=True):
            mine.data[...] = theirs.data
    first, *between = halves[0].forward()
    second, *end = halves[1].forward(x[2:], cont[:2], *between)
    assert_near(np.concatenate([first, second]), y)
    for a, b in zip(end, last, strict=True):
        assert_near(a, b)
    diffs = one.backward([np.ones(top.shape) for top in one.tops], [True, False] + [True] * count)
    assert all(not diff.any() for diff in diffs[2:])  # nothing reaches a first state


@pytest.mark.parametrize("kind", LOOPS)
def test_the_last_state_is_the_next_first_and_part_of_the_layers_state(
    kind: str, engine: Engine, rng
) -> None:
    x, _ = sequence(rng)
    cont = np.ones((2, 2), np.float32)
    text = layer_text(kind, params(), 2)
    one = OneLayer(text, [x[:2], cont], engine)
    first = one.forward()[0]
    state = one.layer.state()
    second = one.forward(x[2:], cont)[0]
    whole = LOOPS[kind](double(one), x, np.ones((4, 2)))
    assert_near(np.concatenate([first, second]), whole)
    resumed = OneLayer(text, [x[2:], cont], engine)
    resumed.layer.load_state(state)
    assert np.array_equal(resumed.forward()[0], second)
    with pytest.raises(ShapeError, match="saved state h"):
        OneLayer(text, [x[2:, :1], cont[:, :1]], engine).layer.load_state(state)


@pytest.mark.parametrize("kind", LOOPS)
def test_streams_may_come_and_go(kind: str, engine: Engine, rng) -> None:
    x, cont = sequence(rng)
    cont[0] = 1
    one = OneLayer(layer_text(kind, params(), 2), [x, cont], engine)
    one.forward()
    fewer = one.forward(x[:, :1], cont[:, :1])[0]
    twin = OneLayer(layer_text(kind, params(), 2), [x[:, :1], cont[:, :1]], engine)
    twin.forward()
    assert_near(fewer, twin.forward()[0])
    assert one.forward(x, cont)[0].shape == (4, 2, D)


@pytest.mark.parametrize("kind", LOOPS)
def test_wrong_sequences_are_refused(kind: str, reference_engine: Engine) -> None:
    x, cont = np.zeros((4, 2, 3)), np.zeros((4, 2))
    one = OneLayer(layer_text(kind, params(), 2), [x, cont], reference_engine)
    with pytest.raises(ShapeError, match="must have 4 steps of 3 values"):
        one.feed([np.zeros((5, 2, 3)), np.zeros((5, 2))])
    with pytest.raises(ShapeError, match=r"cont .* must have shape \(4, 2\)"):
        one.feed([x, np.zeros((4, 3))])
    one.forward(x, cont)
    with pytest.raises(NetError, match="cannot backpropagate to cont"):
        one.backward([np.zeros((4, 2, D))], [True, True])
    assert not one.layer.allow_force_backward(1)
    with pytest.raises(NetError, match=r"bottom\(s\), got 5"):
        OneLayer(layer_text(kind, params(), 5), [x, cont, cont, cont, cont], reference_engine)
    with pytest.raises(NetError, match=r"top\(s\)"):
        OneLayer(layer_text(kind, params(), 2, 2), [x, cont], reference_engine)
    with pytest.raises(ParameterError, match="num_output"):
        OneLayer(layer_text(kind, "", 2), [x, cont], reference_engine)
    with pytest.raises(ShapeError, match="static"):
        OneLayer(layer_text(kind, params(), 3), [x, cont, np.zeros((3, 2))], reference_engine)
    hidden = [np.zeros((1, 2, D + 1))] * STATES[kind]
    text = layer_text(kind, params("expose_hidden: true"), 2 + len(hidden), 1 + len(hidden))
    with pytest.raises(ShapeError, match="first state"):
        OneLayer(text, [x, cont, *hidden], reference_engine)


def unit_by_formula(c, z, cont):
    i, f, o, g = np.split(z, 4, axis=2)
    cell = cont[..., None] * sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return cell, sigmoid(o) * np.tanh(cell)


@pytest.mark.parametrize("flags", [[True, True, False], [True, False, False], [False, True, False]])
def test_one_step_matches_its_formula(flags: list[bool], engine: Engine, rng) -> None:
    check_layer(
        "LSTMUnit",
        "",
        [rng.normal(size=(1, 2, 3)), rng.normal(size=(1, 2, 12)), np.array([[1, 0]])],
        expected=unit_by_formula,
        tops=2,
        engine=engine,
        flags=flags,
        batch_axis=1,
    )


def test_one_step_checks_its_bottoms(reference_engine: Engine) -> None:
    good = [np.zeros((1, 2, 3)), np.zeros((1, 2, 12)), np.zeros((1, 2))]
    text = layer_text("LSTMUnit", "", 3, 2)
    one = OneLayer(text, good, reference_engine)
    with pytest.raises(NetError, match="cont"):
        one.backward([good[0], good[0]])
    assert not one.layer.allow_force_backward(2)
    with pytest.raises(ShapeError, match=r"shape \(1, n, d\)"):
        OneLayer(text, [np.zeros((2, 2, 3)), *good[1:]], reference_engine)
    with pytest.raises(ShapeError, match="gates"):
        OneLayer(text, [good[0], np.zeros((1, 2, 9)), good[2]], reference_engine)


def test_an_overwritten_output_does_not_spoil_the_gradients(engine: Engine, rng) -> None:
    x, cont = sequence(rng)
    for kind in LOOPS:
        text = layer_text(kind, params(), 2)
        plain = OneLayer(text, [x, cont], engine)
        one = OneLayer(text, [x, cont], engine, overwriters=("ReLU",))
        plain.forward()
        one.forward()
        one.tops[0].data.fill(0)
        dy = rng.normal(size=(4, 2, D))
        assert_near(one.backward([dy], [True, False])[0], plain.backward([dy], [True, False])[0])
