"""Eltwise, Concat, Slice, Split, Flatten, Reshape, Silence, Input."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import ParameterError, ShapeError, SwcaffeError
from swcaffe.net.blob import MAX_COUNT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", lambda a, b, c: a + b + c),
        ("coeff: 1 coeff: -2 coeff: 0.5", lambda a, b, c: a - 2 * b + 0.5 * c),
        ("operation: PROD", lambda a, b, c: a * b * c),
        ("operation: PROD stable_prod_grad: false", lambda a, b, c: a * b * c),
        ("operation: MAX", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    ],
)
def test_eltwise_matches_numpy(text: str, expected, engine: Engine, rng) -> None:
    values = rng.permutation(3 * 24).reshape(3, 2, 3, 4) * 0.1 - 3
    check_layer(
        "Eltwise", f"eltwise_param {{ {text} }}", list(values), expected=expected, engine=engine
    )


def test_products_have_right_gradients_at_zero_and_ties_go_to_the_second(engine: Engine) -> None:
    text = layer_text("Eltwise", "eltwise_param { operation: PROD stable_prod_grad: false }", 2)
    one = OneLayer(text, [[0.0, 2.0], [3.0, 0.0]], engine)
    one.forward()
    assert [d.tolist() for d in one.backward([[1, 1]])] == [[3, 0], [0, 2]]
    text = layer_text("Eltwise", "eltwise_param { operation: MAX }", 3)
    one = OneLayer(text, [[1.0, 5.0], [1.0, 4.0], [1.0, 5.0]], engine)
    one.forward()
    assert [d.tolist() for d in one.backward([[1, 1]])] == [[0, 1], [1, 0], [0, 0]]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_slice_match_numpy(axis: int, engine: Engine, rng) -> None:
    shapes = [[2, 3, 4] for _ in range(3)]
    for i, shape in enumerate(shapes):
        shape[axis] += i
    parts = [rng.normal(size=s).astype(np.float32) for s in shapes]
    batch = None if axis == 0 else 0
    check_layer(
        "Concat",
        f"concat_param {{ axis: {axis} }}",
        parts,
        expected=lambda *p: np.concatenate(p, axis),
        engine=engine,
        batch_axis=batch,
    )
    ends = np.cumsum([s[axis] for s in shapes])[:-1]
    points = " ".join(f"slice_point: {end}" for end in ends)
    check_layer(
        "Slice",
        f"slice_param {{ axis: {axis} {points} }}",
        [np.concatenate(parts, axis)],
        expected=lambda x: np.split(x, ends, axis),
        tops=3,
        engine=engine,
        batch_axis=batch,
    )


def test_concat_gives_gradients_only_where_asked(engine: Engine) -> None:
    one = OneLayer(layer_text("Concat", "", 3), [np.zeros((2, n)) for n in (1, 2, 3)], engine)
    one.forward()
    diff = np.arange(12).reshape(2, 6)
    first, second, third = one.backward([diff], [True, False, True])
    assert second is None
    assert_near(first, diff[:, :1])
    assert_near(third, diff[:, 3:])


def test_split_shares_values_and_sums_gradients(engine: Engine, rng) -> None:
    x = rng.normal(size=(2, 3)).astype(np.float32)
    one = check_layer("Split", "", [x], expected=lambda x: [x, x, x], tops=3, engine=engine)
    assert all(top.shares_data_with(one.bottoms[0]) for top in one.tops)


@pytest.mark.parametrize("kind", ["Split", "Flatten", "Reshape", "Concat", "Slice"])
def test_sharing_follows_a_bottom_that_grows(kind: str, engine: Engine) -> None:
    params = "reshape_param { shape { dim: -1 } }" if kind == "Reshape" else ""
    one = OneLayer(layer_text(kind, params, 1), [np.zeros((2, 3))], engine)
    one.forward()
    big = np.arange(120.0).reshape(20, 6)
    assert_near(one.forward(big)[0].reshape(-1), big.reshape(-1))
    small = -np.arange(4.0).reshape(2, 2)
    assert_near(one.forward(small)[0].reshape(-1), small.reshape(-1))
    back = one.backward([small.reshape(one.tops[0].shape)])[0]
    assert_near(back, small)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("", (2, 60)),
        ("axis: 2", (2, 3, 20)),
        ("axis: 0 end_axis: 1", (6, 4, 5)),
        ("axis: -1", (2, 3, 4, 5)),
    ],
)
def test_flatten_shapes(text: str, shape: tuple[int, ...], engine: Engine, rng) -> None:
    x = rng.normal(size=(2, 3, 4, 5))
    one = OneLayer(layer_text("Flatten", f"flatten_param {{ {text} }}", 1), [x], engine)
    assert one.tops[0].shape == shape
    assert_near(one.forward()[0], x.reshape(shape).astype(np.float32))


RESHAPES = {
    "shape { dim: 0 dim: -1 }": (2, 12),
    "shape { dim: 0 dim: 0 dim: 2 dim: -1 }": (2, 3, 2, 2),
    "axis: 1 shape { dim: -1 }": (2, 12),
    "axis: 1 num_axes: 1 shape { dim: 3 dim: 1 }": (2, 3, 1, 4),
    "axis: 1 num_axes: 0 shape { dim: 1 }": (2, 1, 3, 4),
    "axis: -1 shape { dim: 1 }": (2, 3, 4, 1),
    "shape {}": None,
    "shape { dim: 5 dim: -1 }": None,
    "shape { dim: 2 dim: 3 }": None,
    "shape { dim: 0 dim: 0 dim: 0 dim: 0 }": None,
    "axis: 4 shape { dim: 1 }": None,
    "shape { dim: -1 dim: -1 }": None,
    "shape { dim: -2 }": None,
    "num_axes: -3 shape { dim: 24 }": None,
    f"shape {{ dim: {MAX_COUNT + 2} }}": None,
}


@pytest.mark.parametrize("text", RESHAPES)
def test_reshape_gives_the_shape_or_a_typed_error(text: str, reference_engine: Engine) -> None:
    x, shape = np.arange(24.0).reshape(2, 3, 4), RESHAPES[text]
    whole = layer_text("Reshape", f"reshape_param {{ {text} }}", 1)
    if shape is None:
        with pytest.raises((ParameterError, ShapeError)):
            OneLayer(whole, [x], reference_engine)
        return
    one = OneLayer(whole, [x], reference_engine)
    assert_near(one.forward()[0], x.reshape(shape))
    assert_near(one.backward([x.reshape(shape)])[0], x)


def overwritten(text: str, bottoms: list[object], engine: Engine) -> OneLayer:
    """The layer as a net makes it when a later one works in place on its top."""
    return OneLayer(text, bottoms, engine, overwriters=("Scale",))


@pytest.mark.parametrize("kind", ["Flatten", "Concat", "Slice"])
def test_a_top_that_is_overwritten_later_is_a_copy(kind: str, engine: Engine, rng) -> None:
    x = rng.normal(size=(2, 3)).astype(np.float32)
    one = overwritten(layer_text(kind, "", 1), [x], engine)
    assert_near(one.forward()[0], x)
    one.tops[0].data.fill(7)
    assert_near(one.bottoms[0].data, x)
    assert_near(one.backward([2 * x])[0], 2 * x)


@pytest.mark.parametrize("kind", ["Sigmoid", "TanH", "ELU", "Softmax"])
@pytest.mark.parametrize("in_place", [False, True])
def test_gradients_do_not_read_what_a_later_layer_overwrites(
    kind: str, in_place: bool, engine: Engine, rng
) -> None:
    x, dy = rng.normal(size=(2, 2, 5)).astype(np.float32)
    text = layer_text(kind, "", 1, in_place=in_place)
    plain, one = OneLayer(layer_text(kind, "", 1), [x], engine), overwritten(text, [x], engine)
    plain.forward()
    one.forward()
    one.tops[0].data.fill(7)
    assert_near(one.backward([dy])[0], plain.backward([dy])[0])


def test_relu_in_place_keeps_its_signs_unless_dropout_keeps_them(engine: Engine, rng) -> None:
    x = rng.normal(size=(2, 5)).astype(np.float32)
    text = layer_text("ReLU", "", 1, in_place=True)
    one = overwritten(text, [x], engine)
    one.forward()
    one.tops[0].data.fill(-1)
    assert_near(one.backward([np.ones((2, 5))])[0], x > 0)
    before = OneLayer(text, [x], engine, overwriters=("Dropout",))
    assert before.layer._kept is None


def test_silence_takes_anything_and_gives_zeros(engine: Engine) -> None:
    one = OneLayer(layer_text("Silence", "", 2, 0), [np.ones(3), np.ones((2, 2))], engine)
    assert one.forward() == []
    first, second = one.backward(flags=[True, False])
    assert first.tolist() == [0, 0, 0]
    assert second is None


BAD = {
    ("Eltwise", "eltwise_param { operation: PROD coeff: 1 coeff: 2 }"): "coeff has no meaning",
    ("Eltwise", "eltwise_param { coeff: 1 }"): "1 coeff values for 2 bottoms",
    ("Concat", "concat_param { axis: 1 concat_dim: 1 }"): "both axis and concat_dim",
    ("Concat", "concat_param { axis: 0 }"): "differ beside axis 0",
    ("Eltwise", ""): "has another shape",
}


@pytest.mark.parametrize(("kind", "params"), BAD)
def test_wrong_combinations_are_refused(kind: str, params: str, reference_engine: Engine) -> None:
    with pytest.raises(SwcaffeError, match=BAD[kind, params]):
        OneLayer(
            layer_text(kind, params, 2), [np.zeros((2, 3)), np.zeros((2, 4))], reference_engine
        )


BAD_SLICES = {
    "slice_point: 1 slice_point: 2": "2 slice_point values for 2 tops",
    "slice_point: 0": "must rise within",
    "slice_point: 3": "must rise within",
    "": "cannot be cut into 2",
    "axis: 1 slice_dim: 1": "both axis and slice_dim",
}


@pytest.mark.parametrize("params", BAD_SLICES)
def test_wrong_cuts_are_refused(params: str, reference_engine: Engine) -> None:
    text = layer_text("Slice", f"slice_param {{ {params} }}", 1, 2)
    with pytest.raises(SwcaffeError, match=BAD_SLICES[params]):
        OneLayer(text, [np.zeros((2, 3))], reference_engine)


def test_flatten_refuses_axes_in_the_wrong_order(reference_engine: Engine) -> None:
    with pytest.raises(ParameterError, match="lies behind end_axis"):
        OneLayer(
            layer_text("Flatten", "flatten_param { axis: 2 end_axis: 1 }", 1),
            [np.zeros((2, 3, 4))],
            reference_engine,
        )


def test_inputs_persist_and_may_be_reshaped(reference_engine: Engine) -> None:
    one = OneLayer(
        layer_text("Input", "input_param { shape { dim: 2 } }", 0, 2), [], reference_engine
    )
    one.tops[0].reshape((3,))
    one.tops[0].data[...] = 5
    one.layer.reshape([], one.tops)
    assert one.forward()[0].tolist() == [5, 5, 5]
    with pytest.raises(ParameterError, match="2 shapes for 3 tops"):
        OneLayer(
            layer_text("Input", "input_param { shape {} shape {} }", 0, 3), [], reference_engine
        )
