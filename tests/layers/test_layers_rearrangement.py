"""Layers that pick, cut, repeat or sum: Reduction, Tile, Crop, ArgMax, Filter, BatchReindex."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, NetError, ParameterError, ShapeError

REDUCTIONS = {
    "SUM": lambda x, axes: x.sum(axes),
    "ASUM": lambda x, axes: np.abs(x).sum(axes),
    "SUMSQ": lambda x, axes: (x**2).sum(axes),
    "MEAN": lambda x, axes: x.mean(axes),
}


@pytest.mark.parametrize("operation", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_reduction_matches_numpy(operation: str, axis: int, engine: Engine, rng) -> None:
    axes = tuple(range(axis % 3, 3))
    check_layer(
        "Reduction",
        f"reduction_param {{ operation: {operation} axis: {axis} coeff: -1.5 }}",
        [rng.normal(size=(2, 3, 4))],
        expected=lambda x: -1.5 * REDUCTIONS[operation](x, axes),
        engine=engine,
        kink=0.0,
    )


def test_a_sum_of_nothing_is_0(engine: Engine) -> None:
    for operation in REDUCTIONS:
        text = layer_text("Reduction", f"reduction_param {{ operation: {operation} axis: 1 }}", 1)
        one = OneLayer(text, [np.zeros((2, 0))], engine)
        assert one.forward()[0].tolist() == [0, 0]
        assert one.backward([[1, 1]])[0].shape == (2, 0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tile_repeats_everything_from_the_axis_on(axis: int, engine: Engine, rng) -> None:
    times = [1, 1, 1]
    times[axis] = 3
    check_layer(
        "Tile",
        f"tile_param {{ axis: {axis} tiles: 3 }}",
        [rng.normal(size=(2, 3, 4))],
        expected=lambda x: np.tile(x, times),
        engine=engine,
    )


@pytest.mark.parametrize("text", ["", "tile_param { tiles: 0 }", "tile_param { tiles: -1 }"])
def test_tile_needs_a_number_of_tiles(text: str, reference_engine: Engine) -> None:
    with pytest.raises(ParameterError, match=r"tiles is -?[01] or missing"):
        OneLayer(layer_text("Tile", text, 1), [np.zeros((2, 3))], reference_engine)


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("", np.s_[:, :, :2, :3]),
        ("crop_param { offset: 1 }", np.s_[:, :, 1:3, 1:4]),
        ("crop_param { axis: 1 offset: 1 offset: 2 offset: 0 }", np.s_[:, 1:2, 2:4, 0:3]),
        ("crop_param { axis: -1 offset: 2 }", np.s_[:, :, :, 2:5]),
    ],
)
def test_crop_cuts_a_block_at_its_offsets(text: str, block, engine: Engine, rng) -> None:
    x, like = rng.normal(size=(2, 3, 4, 5)), np.zeros((1, 1, 2, 3))
    one = check_layer(
        "Crop",
        text,
        [x, like],
        expected=lambda x, _: x[block],
        engine=engine,
        flags=[True, False],
        batch_axis=None,
    )
    one.forward(x, like)
    assert not np.any(one.backward(flags=[False, True])[1])


def test_crop_says_which_axis_is_too_short(reference_engine: Engine) -> None:
    x, like = np.zeros((2, 3, 4, 5)), np.zeros((1, 1, 2, 3))
    text = layer_text("Crop", "crop_param { offset: 3 }", 2)
    with pytest.raises(ShapeError, match=r"axis 2 of bottom .* is too short for 2 from 3 on"):
        OneLayer(text, [x, like], reference_engine)
    with pytest.raises(ParameterError, match="3 offset values for 2 cropped axes"):
        OneLayer(
            layer_text("Crop", "crop_param { offset: [0, 0, 0] }", 2), [x, like], reference_engine
        )
    with pytest.raises(ShapeError, match="has fewer axes"):
        OneLayer(layer_text("Crop", "", 2), [x, np.zeros((2, 3))], reference_engine)


def largest(values: np.ndarray, k: int) -> list[int]:
    """Places of the k largest, later ones first among equals, by repeated search."""
    found: list[int] = []
    for _ in range(k):
        rest = [i for i in range(len(values)) if i not in found]
        found.append(max(rest, key=lambda i: (values[i], i)))
    return found


def test_arg_max_of_items_lists_places_and_on_request_values(engine: Engine, rng) -> None:
    x = np.round(rng.normal(size=(3, 2, 2, 2)) * 2)
    places = np.array([largest(item, 3) for item in x.reshape(3, -1)])
    text = layer_text("ArgMax", "argmax_param { top_k: 3 }", 1)
    assert OneLayer(text, [x], engine).forward()[0].tolist() == places.reshape(3, 1, 3, 1).tolist()
    text = layer_text("ArgMax", "argmax_param { top_k: 3 out_max_val: true }", 1)
    top = OneLayer(text, [x], engine).forward()[0]
    assert top.shape == (3, 2, 3, 1)
    assert np.array_equal(top[:, 0, :, 0], places)
    assert np.array_equal(top[:, 1, :, 0], np.take_along_axis(x.reshape(3, -1), places, 1))


@pytest.mark.parametrize("values", [False, True])
def test_arg_max_along_an_axis_gives_places_or_values(values: bool, engine: Engine, rng) -> None:
    x = np.round(rng.normal(size=(2, 5, 3)) * 2)
    params = f"argmax_param {{ axis: -2 top_k: 2 out_max_val: {str(values).lower()} }}"
    top = OneLayer(layer_text("ArgMax", params, 1), [x], engine).forward()[0]
    for n, i in np.ndindex(2, 3):
        places = largest(x[n, :, i], 2)
        assert top[n, :, i].tolist() == (x[n, places, i].tolist() if values else places)


def test_arg_max_has_no_gradient_and_checks_top_k(reference_engine: Engine) -> None:
    one = OneLayer(layer_text("ArgMax", "", 1), [np.ones((2, 3))], reference_engine)
    one.backward(flags=[False])
    with pytest.raises(NetError, match="has no gradient"):
        one.backward()
    text = layer_text("ArgMax", "argmax_param { top_k: 4 }", 1)
    with pytest.raises(ParameterError, match="top_k 4 must be 1 to the 3 values"):
        OneLayer(text, [np.ones((2, 3))], reference_engine)


def test_batch_reindex_repeats_and_drops_items(engine: Engine, rng) -> None:
    check_layer(
        "BatchReindex",
        "",
        [rng.normal(size=(3, 2, 2)), np.array([2, 0, 2, 2])],
        expected=lambda x, index: x[index.astype(int)],
        engine=engine,
        flags=[True, False],
        batch_axis=None,
    )


def test_batch_reindex_names_a_wrong_number(reference_engine: Engine) -> None:
    text = layer_text("BatchReindex", "", 2)
    one = OneLayer(text, [np.zeros((3, 2)), [0, 3, -1]], reference_engine)
    with pytest.raises(DataError, match=r"index 3 of item 1 of the batch is not in 0 … 2"):
        one.forward()
    with pytest.raises(NetError, match="cannot backpropagate to the item numbers"):
        one.backward(flags=[False, True])
    assert [one.layer.allow_force_backward(i) for i in range(2)] == [True, False]
    with pytest.raises(ShapeError, match="must have one axis"):
        OneLayer(text, [np.zeros((3, 2)), [[0, 1]]], reference_engine)


def test_filter_keeps_selected_items_in_order(engine: Engine, rng) -> None:
    a, b = rng.normal(size=(4, 3)), rng.normal(size=(4, 2, 2))
    one = check_layer(
        "Filter",
        "",
        [a, b, [0, 1, 0, -2]],
        expected=lambda a, b, s: [a[s != 0], b[s != 0]],
        engine=engine,
        tops=2,
        flags=[True, True, False],
        batch_axis=None,
    )
    for selector in ([1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]):
        kept = np.flatnonzero(selector)
        tops = one.forward(a, b, selector)
        assert_near(tops[0], a[kept].astype(np.float32))
        diffs = one.backward([np.ones(top.shape) for top in tops], [True, True, False])
        assert diffs[0][:, 0].tolist() == selector


def test_filter_reports_the_whole_batch_until_it_has_run(reference_engine: Engine) -> None:
    one = OneLayer(layer_text("Filter", "", 2), [np.zeros((4, 3)), [0, 1, 0, 0]], reference_engine)
    assert one.tops[0].shape == (4, 3)
    assert one.forward()[0].shape == (1, 3)
    with pytest.raises(NetError, match="cannot backpropagate to its selector"):
        one.backward(flags=[True, True])
    assert [one.layer.allow_force_backward(i) for i in range(2)] == [True, False]


def test_filter_checks_what_it_is_given(reference_engine: Engine) -> None:
    x = np.zeros((4, 3))
    with pytest.raises(NetError, match="one top for each bottom but the last, got 2 for 2"):
        OneLayer(layer_text("Filter", "", 2, 2), [x, np.zeros(4)], reference_engine)
    with pytest.raises(ShapeError, match="must hold one value per item"):
        OneLayer(layer_text("Filter", "", 2), [x, np.zeros((4, 2))], reference_engine)
    with pytest.raises(ShapeError, match="differ in the number of items"):
        OneLayer(layer_text("Filter", "", 2), [x, np.zeros(3)], reference_engine)


def test_a_parameter_is_a_top_whose_gradients_add_up(engine: Engine) -> None:
    text = layer_text("Parameter", "parameter_param { shape { dim: 2 dim: 3 } }", 0)
    one = OneLayer(text, [], engine)
    assert [blob.shape for blob in one.layer.blobs] == [(2, 3)]
    one.layer.blobs[0].data[...] = values = np.arange(6).reshape(2, 3)
    assert one.forward()[0].tolist() == values.tolist()
    for _ in range(2):
        one.backward([values])
    assert one.layer.blobs[0].diff.tolist() == (2 * values).tolist()
