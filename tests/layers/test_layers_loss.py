"""Losses and Accuracy: values, normalisation, labels that are none, two tops."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, NetError, ParameterError, ShapeError
from swcaffe.layers._loss import check_labels
from swcaffe.net.layer import LAYERS, Phase


def log_softmax(x):
    shifted = x - x.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def softmax_loss(x, labels, ignore=None, divisor=None):
    total, counted = 0.0, 0
    logs = log_softmax(x.reshape(x.shape[0], x.shape[1], -1))
    for n, p in np.ndindex(x.shape[0], logs.shape[2]):
        label = int(labels.reshape(x.shape[0], -1)[n, p])
        if label != ignore:
            total -= logs[n, label, p]
            counted += 1
    return total / max(counted if divisor is None else divisor, 1)


def test_softmax_loss_matches_its_formula(engine: Engine, rng) -> None:
    x, labels = rng.normal(size=(4, 3)), np.array([0, 2, 1, 1.0])
    check_layer(
        "SoftmaxWithLoss",
        "",
        [x, labels],
        expected=softmax_loss,
        engine=engine,
        flags=[True, False],
    )


@pytest.mark.parametrize(
    ("mode", "divisor"), [("FULL", 12), ("VALID", 9), ("BATCH_SIZE", 2), ("NONE", 1)]
)
def test_softmax_loss_divides_as_told(mode: str, divisor: int, engine: Engine, rng) -> None:
    x, labels = rng.normal(size=(2, 4, 3, 2)), rng.integers(0, 4, (2, 3, 2)).astype(float)
    labels.flat[[0, 5, 7]] = 255
    check_layer(
        "SoftmaxWithLoss",
        f"loss_param {{ ignore_label: 255 normalization: {mode} }}",
        [x, labels],
        expected=lambda x, t: softmax_loss(x, t, 255, divisor),
        engine=engine,
        flags=[True, False],
    )


def test_a_batch_of_ignored_labels_has_no_loss_and_no_gradient(engine: Engine, rng) -> None:
    x = rng.normal(size=(4, 3))
    text = layer_text("SoftmaxWithLoss", "loss_param { ignore_label: 255 }", 2)
    one = OneLayer(text, [x, np.full(4, 255)], engine)
    assert one.forward()[0] == 0
    assert not one.backward(flags=[True, False])[0].any()
    accuracy = layer_text("Accuracy", "accuracy_param { ignore_label: 255 }", 2)
    assert OneLayer(accuracy, [x, np.full(4, 255)], engine, phase=Phase.TEST).forward()[0] == 0
    half = np.array([255, 255, 0, 1])
    assert_near(one.forward(x, half)[0], softmax_loss(x[2:], half[2:]))
    diff = one.backward(flags=[True, False])[0]
    probabilities = np.exp(log_softmax(x))
    probabilities[[2, 3], [0, 1]] -= 1
    assert_near(diff, np.where(np.arange(4)[:, None] < 2, 0, probabilities / 2))


def test_a_certain_and_wrong_score_costs_the_floor(engine: Engine) -> None:
    one = OneLayer(layer_text("SoftmaxWithLoss", "", 2), [[[0, 1e5]], [0]], engine)
    assert_near(one.forward()[0], 87.33654, 1e-6)
    assert one.backward(flags=[True, False])[0].tolist() == [[-1, 1]]


@pytest.mark.parametrize("overwriters", [(), ("ReLU",)])
def test_the_second_top_holds_probabilities(
    overwriters: tuple[str, ...], engine: Engine, rng
) -> None:
    x = rng.normal(size=(3, 4))
    text = layer_text("SoftmaxWithLoss", "loss_weight: 1 loss_weight: 0", 2, 2)
    two = OneLayer(text, [x, [0, 1, 2]], engine, overwriters=overwriters)
    one = OneLayer(layer_text("SoftmaxWithLoss", "", 2), [x, [0, 1, 2]], engine)
    loss, probabilities = two.forward()
    assert loss == one.forward()[0]
    assert_near(probabilities, np.exp(log_softmax(x)))
    if overwriters:
        two.tops[1].data.fill(0)
    assert_near(two.backward(flags=[True, False])[0], one.backward(flags=[True, False])[0])


def test_the_loss_weight_scales_the_gradient(engine: Engine, rng) -> None:
    x = rng.normal(size=(3, 4))
    plain, half = (
        OneLayer(layer_text("SoftmaxWithLoss", w, 2), [x, [0, 1, 2]], engine)
        for w in ("", "loss_weight: 0.5")
    )
    assert plain.forward()[0] == half.forward()[0]
    whole = plain.backward(flags=[True, False])[0]
    assert_near(half.backward(flags=[True, False])[0], 0.5 * whole)


LABELS = {
    "too_large": ([0, 3, 1], "label 3 of item 1 .*is not in 0 … 2; .*run from 0 to 3", "data"),
    "negative": ([0, -1, 1], "label -1 of item 1", "correct"),
    "far": ([0, 1456, 1], "run from 0 to 1456", "more than 1456"),
    "one_based": ([1, 3, 2], "run from 1 to 3", "1-based"),
    "not_a_number": ([0, 1, np.nan], "label nan of item 2", "correct"),
}


@pytest.mark.parametrize("kind", ["SoftmaxWithLoss", "Accuracy"])
@pytest.mark.parametrize("name", LABELS)
def test_labels_that_are_no_class_are_named(name: str, kind: str, reference_engine: Engine) -> None:
    labels, message, fix = LABELS[name]
    one = OneLayer(layer_text(kind, "", 2), [np.zeros((3, 3)), labels], reference_engine)
    with pytest.raises(DataError, match=message) as caught:
        one.forward()
    assert fix in caught.value.fix
    assert ("more than" in caught.value.fix) == (name in ("too_large", "far"))


def test_ignored_labels_may_be_anything_and_fractions_are_cut(reference_engine: Engine) -> None:
    check_labels(np.array([255, 0, 2.9, -0.5], np.float32), 3, 255)
    check_labels(np.array([], np.float32), 3, None)
    with pytest.raises(DataError, match="label 254 of item 1"):
        check_labels(np.array([255, 254], np.float32), 3, 255)
    with pytest.raises(DataError, match="label 9 of item 1"):
        check_labels(np.array([[0, 0], [0, 9]], np.float32), 3, None, per_item=2)


def test_one_label_per_class_is_refused_with_both_shapes(reference_engine: Engine) -> None:
    text = layer_text("SoftmaxWithLoss", "", 2)
    with pytest.raises(ShapeError, match=r"12 values, scores .* need 4") as caught:
        OneLayer(text, [np.zeros((4, 3)), np.zeros((4, 3))], reference_engine)
    assert "one integer label per position" in caught.value.fix
    with pytest.raises(ShapeError, match="number of items"):
        OneLayer(text, [np.zeros((4, 3)), np.zeros(3)], reference_engine)


@pytest.mark.parametrize("kind", ["SoftmaxWithLoss", "SigmoidCrossEntropyLoss"])
def test_labels_take_no_gradient(kind: str, reference_engine: Engine) -> None:
    labels = np.zeros((2, 3) if kind.startswith("Sigmoid") else 2)
    one = OneLayer(layer_text(kind, "", 2), [np.zeros((2, 3)), labels], reference_engine)
    one.forward()
    with pytest.raises(NetError, match="cannot backpropagate to its labels"):
        one.backward()
    assert not one.layer.allow_force_backward(1)


def test_every_loss_has_weight_one_and_makes_its_top() -> None:
    losses = {name for name in LAYERS if LAYERS.get(name).is_loss}
    assert losses == {
        "ContrastiveLoss",
        "EuclideanLoss",
        "HingeLoss",
        "InfogainLoss",
        "MultinomialLogisticLoss",
        "SigmoidCrossEntropyLoss",
        "SoftmaxWithLoss",
    }
    assert all(LAYERS.get(name).tops.least == 1 for name in losses)


def sigmoid_loss(x, t):
    return -(t * np.log(1 / (1 + np.exp(-x))) + (1 - t) * np.log(1 / (1 + np.exp(x)))).sum() / len(
        x
    )


def test_sigmoid_loss_matches_its_formula(engine: Engine, rng) -> None:
    check_layer(
        "SigmoidCrossEntropyLoss",
        "",
        [rng.normal(size=(4, 3)), rng.uniform(size=(4, 3))],
        expected=sigmoid_loss,
        engine=engine,
        flags=[True, False],
    )


def test_twenty_undecided_labels_cost_twenty_bits(engine: Engine, rng) -> None:
    targets = rng.integers(0, 2, (5, 20))
    one = OneLayer(
        layer_text("SigmoidCrossEntropyLoss", "", 2), [np.zeros((5, 20)), targets], engine
    )
    assert_near(one.forward()[0], 13.86294, 1e-6)


def test_sigmoid_loss_needs_one_target_per_score(reference_engine: Engine) -> None:
    text = layer_text("SigmoidCrossEntropyLoss", "", 2)
    with pytest.raises(ShapeError, match="differ in size") as caught:
        OneLayer(text, [np.zeros((4, 3)), np.zeros(4)], reference_engine)
    assert "one target per score" in caught.value.fix


def test_sigmoid_loss_ignores_truncated_targets(engine: Engine) -> None:
    text = layer_text(
        "SigmoidCrossEntropyLoss", "loss_param { ignore_label: -1 normalization: VALID }", 2
    )
    one = OneLayer(text, [[[0, 5.0, 0]], [[1, -1, 0]]], engine)
    assert_near(one.forward()[0], np.log(2), 1e-6)
    assert one.backward(flags=[True, False])[0].tolist() == [[-0.25, 0, 0.25]]


@pytest.mark.parametrize("flags", [[True, True], [True, False], [False, True]])
def test_euclidean_loss_matches_its_formula(flags: list[bool], engine: Engine, rng) -> None:
    check_layer(
        "EuclideanLoss",
        "",
        [rng.normal(size=(4, 3)), rng.normal(size=(4, 3))],
        expected=lambda a, b: ((a - b) ** 2).sum() / 8,
        engine=engine,
        flags=flags,
    )


def test_euclidean_loss_lets_both_bottoms_be_forced_and_checks_counts(
    reference_engine: Engine,
) -> None:
    one = OneLayer(layer_text("EuclideanLoss", "", 2), [np.zeros((2, 3))] * 2, reference_engine)
    assert one.layer.allow_force_backward(1)
    with pytest.raises(ShapeError, match="differ in size"):
        one.feed([np.zeros((2, 3)), np.zeros((2, 4))])


@pytest.mark.parametrize(("top_k", "expected"), [(1, 0), (2, 0), (3, 1)])
def test_a_tie_counts_against_the_label(top_k: int, expected: int, engine: Engine) -> None:
    text = layer_text("Accuracy", f"accuracy_param {{ top_k: {top_k} }}", 2)
    one = OneLayer(text, [np.ones((2, 3)), [0, 2]], engine, phase=Phase.TEST)
    assert one.forward()[0] == expected


def test_accuracy_counts_per_class_and_leaves_absent_ones_at_zero(engine: Engine) -> None:
    scores = np.eye(3)[[0, 0, 2, 2]]
    one = OneLayer(layer_text("Accuracy", "", 2, 2), [scores, [0, 2, 2, 2]], engine)
    total, classes = one.forward()
    assert total == 0.75
    assert_near(classes, [1, 0, 2 / 3], 1e-6)


def test_accuracy_has_no_gradient_and_checks_top_k(reference_engine: Engine) -> None:
    one = OneLayer(layer_text("Accuracy", "", 2), [np.ones((2, 3)), [0, 2]], reference_engine)
    one.backward(flags=[False, False])
    with pytest.raises(NetError, match="has no gradient"):
        one.backward(flags=[True, False])
    with pytest.raises(ParameterError, match="top_k 4 must be 1 to the 3 classes"):
        OneLayer(
            layer_text("Accuracy", "accuracy_param { top_k: 4 }", 2),
            [np.ones((2, 3)), [0, 2]],
            reference_engine,
        )
