"""Hinge, contrastive, infogain and multinomial logistic loss against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, NetError, ParameterError, ShapeError
from swcaffe.proto import binary

LABELS = np.array([0, 2, 1, 1.0])


def hinge(x, labels, power):
    total = 0.0
    for n, k in np.ndindex(*x.shape):
        sign = -1 if k == labels[n] else 1
        total += max(0, 1 + sign * x[n, k]) ** power
    return total / len(x)


@pytest.mark.parametrize(("norm", "power"), [("L1", 1), ("L2", 2)])
def test_hinge_loss_matches_its_loops(norm: str, power: int, engine: Engine, rng) -> None:
    x = rng.uniform(0.1, 0.8, size=(4, 3)) * rng.choice([-1, 1, 2], size=(4, 3))
    check_layer(
        "HingeLoss",
        f"hinge_loss_param {{ norm: {norm} }}",
        [x, LABELS],
        expected=lambda x, labels: hinge(x, labels, power),
        engine=engine,
        flags=[True, False],
    )


def test_no_score_beyond_the_margin_costs_or_moves(engine: Engine) -> None:
    one = OneLayer(layer_text("HingeLoss", "", 2), [[[1.0, -1, -5], [-1, -1, 7]], [0, 2]], engine)
    assert one.forward()[0] == 0
    assert not one.backward(flags=[True, False])[0].any()


def test_multinomial_loss_matches_its_formula(engine: Engine, rng) -> None:
    check_layer(
        "MultinomialLogisticLoss",
        "",
        [rng.uniform(0.2, 0.9, size=(4, 3)), LABELS],
        expected=lambda p, labels: -np.log(p[np.arange(4), labels.astype(int)]).mean(),
        engine=engine,
        flags=[True, False],
        step=1e-3,
    )


def test_an_impossible_label_costs_the_floor_of_the_logarithm(engine: Engine) -> None:
    one = OneLayer(layer_text("MultinomialLogisticLoss", "", 2), [[[0.0, 1]], [0]], engine)
    assert_near(one.forward()[0], 20 * np.log(10), 1e-6)
    assert np.isfinite(one.backward(flags=[True, False])[0]).all()


def infogain(x, labels, matrix, ignored=None):
    shifted = np.exp(x - x.max(1, keepdims=True))
    prob, total, counted = shifted / shifted.sum(1, keepdims=True), 0.0, 0
    matrix = matrix.reshape(x.shape[1], x.shape[1])
    for n, p in np.ndindex(x.shape[0], x.shape[2]):
        if labels[n, p] != ignored:
            counted += 1
            for k in range(x.shape[1]):
                total -= matrix[int(labels[n, p]), k] * np.log(prob[n, k, p])
    return total / max(counted, 1)


@pytest.mark.parametrize("ignored", [None, 2])
def test_infogain_loss_matches_its_loops(ignored: int | None, engine: Engine, rng) -> None:
    labels = np.array([[0, 2, 1], [1, 1, 2]])
    param = "" if ignored is None else f"loss_param {{ ignore_label: {ignored} }}"
    check_layer(
        "InfogainLoss",
        param,
        [rng.normal(size=(2, 4, 3)), labels, rng.uniform(size=(1, 1, 4, 4))],
        expected=lambda x, labels, matrix: infogain(x, labels, matrix, ignored),
        engine=engine,
        flags=[True, False, False],
        batch_axis=None,
    )


def test_infogain_weighs_the_second_class_three_times(engine: Engine, tmp_path: Path) -> None:
    matrix = np.diag([1.0, 3.0]).astype(np.float32)
    binary.write(tmp_path / "h.binaryproto", binary.array_to_blob(matrix))
    source = f'infogain_loss_param {{ source: "{tmp_path}/h.binaryproto" }}'
    scores, labels = np.zeros((2, 2)), np.array([0, 1])
    from_file = OneLayer(layer_text("InfogainLoss", source, 2), [scores, labels], engine)
    from_blob = OneLayer(layer_text("InfogainLoss", "", 3), [scores, labels, matrix], engine)
    for one in (from_file, from_blob):
        assert_near(one.forward()[0], 1.386294, 1e-6)
    flags = [True, False]
    assert np.array_equal(
        from_file.backward(flags=flags)[0], from_blob.backward(flags=[*flags, False])[0]
    )


def test_an_identity_matrix_makes_it_the_softmax_loss(engine: Engine, rng) -> None:
    x = rng.normal(size=(4, 3))
    two = layer_text("InfogainLoss", "loss_weight: 1 loss_weight: 0", 3, 2)
    ours = OneLayer(two, [x, LABELS, np.eye(3)], engine)
    softmax = OneLayer(layer_text("SoftmaxWithLoss", "", 2), [x, LABELS], engine)
    loss, prob = ours.forward()
    assert_near(loss, softmax.forward()[0], 1e-6)
    assert_near(prob.sum(1), np.ones(4), 1e-6)
    diff = ours.backward(flags=[True, False, False])[0]
    assert_near(diff, softmax.backward(flags=[True, False])[0], 1e-6)


def test_infogain_wants_a_matrix_of_the_classes(tmp_path: Path, reference_engine: Engine) -> None:
    x = np.zeros((4, 3))
    with pytest.raises(ParameterError, match="no infogain matrix"):
        OneLayer(layer_text("InfogainLoss", "", 2), [x, LABELS], reference_engine)
    with pytest.raises(ShapeError, match="3 classes need 3 x 3 values"):
        OneLayer(layer_text("InfogainLoss", "", 3), [x, LABELS, np.eye(4)], reference_engine)
    with pytest.raises(DataError, match="cannot read"):
        source = f'infogain_loss_param {{ source: "{tmp_path}/none" }}'
        OneLayer(layer_text("InfogainLoss", source, 2), [x, LABELS], reference_engine)
    with pytest.raises(ParameterError, match="normalize has no meaning"):
        text = layer_text("InfogainLoss", "loss_param { normalize: true }", 3)
        OneLayer(text, [x, LABELS, np.eye(3)], reference_engine)


def contrastive(a, b, similar, margin, legacy):
    total = 0.0
    for n in range(len(a)):
        square = ((a[n] - b[n]) ** 2).sum()
        if int(similar[n]):
            total += square
        else:
            apart = max(margin - (square if legacy else np.sqrt(square)), 0)
            total += apart if legacy else apart**2
    return total / (2 * len(a))


@pytest.mark.parametrize("legacy", [False, True])
def test_contrastive_loss_matches_its_loops(legacy: bool, engine: Engine, rng) -> None:
    a, b, similar = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), np.array([1, 0, 0, -1])
    a[2] = b[2] + 0.3  # within the margin, while pair 1 is beyond
    param = f"contrastive_loss_param {{ margin: 1.5 legacy_version: {str(legacy).lower()} }}"
    check_layer(
        "ContrastiveLoss",
        param,
        [a, b, similar],
        expected=lambda *blobs: contrastive(*blobs, 1.5, legacy),
        engine=engine,
        flags=[True, True, False],
    )


def test_a_pair_at_one_place_has_a_finite_gradient(engine: Engine) -> None:
    x = np.ones((1, 2))
    one = OneLayer(layer_text("ContrastiveLoss", "", 3), [x, x, [0]], engine)
    assert one.forward()[0] == 0.5
    assert one.backward(flags=[True, True, False])[0].tolist() == [[0, 0]]


@pytest.mark.parametrize("kind", ["HingeLoss", "MultinomialLogisticLoss", "InfogainLoss"])
def test_labels_that_are_no_class_are_named(kind: str, reference_engine: Engine) -> None:
    bottoms = [np.ones((2, 3)), np.array([0, 3])]
    if kind == "InfogainLoss":
        bottoms.append(np.eye(3))
    one = OneLayer(layer_text(kind, "", len(bottoms)), bottoms, reference_engine)
    with pytest.raises(DataError, match=r"label 3 of item 1 of the batch is not in 0 … 2"):
        one.forward()


@pytest.mark.parametrize(
    ("kind", "label", "shape"),
    [
        ("HingeLoss", 1, (2,)),
        ("MultinomialLogisticLoss", 1, (2,)),
        ("InfogainLoss", 1, (2,)),
        ("InfogainLoss", 2, (2,)),
        ("ContrastiveLoss", 2, (2, 3)),
    ],
)
def test_labels_and_matrices_take_no_gradient(
    kind: str, label: int, shape: tuple[int, ...], reference_engine: Engine
) -> None:
    last = {"InfogainLoss": [np.eye(3)], "ContrastiveLoss": [np.ones(2)]}.get(kind, [])
    bottoms = [np.ones((2, 3)), np.ones(shape), *last]
    one = OneLayer(layer_text(kind, "", len(bottoms)), bottoms, reference_engine)
    one.forward()
    with pytest.raises(NetError, match="cannot backpropagate to its"):
        one.backward(flags=[i == label for i in range(len(bottoms))])
    assert one.layer.allow_force_backward(0)
    assert not one.layer.allow_force_backward(label)


def test_sizes_that_do_not_fit_are_refused(reference_engine: Engine) -> None:
    x = np.zeros((2, 3))
    for kind in ("HingeLoss", "MultinomialLogisticLoss"):
        with pytest.raises(ShapeError, match="6 values for the 2 items"):
            OneLayer(layer_text(kind, "", 2), [x, x], reference_engine)
    with pytest.raises(ShapeError, match="differ in size"):
        text = layer_text("ContrastiveLoss", "", 3)
        OneLayer(text, [x, np.zeros((2, 4)), np.zeros(2)], reference_engine)
    with pytest.raises(ShapeError, match="one value for each of 2 pairs"):
        OneLayer(layer_text("ContrastiveLoss", "", 3), [x, x, x], reference_engine)
