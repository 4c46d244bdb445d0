"""InnerProduct and Embed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import OneLayer, assert_near, check_layer, layer_text

from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, NetError, ParameterError, ShapeError

FILL = 'weight_filler { type: "gaussian" } bias_filler { type: "gaussian" }'


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_inner_product_matches_numpy(
    transpose: bool, bias: bool, axis: int, engine: Engine, rng
) -> None:
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    params = (
        f"inner_product_param {{ num_output: 5 axis: {axis} transpose: {str(transpose).lower()} "
        f"bias_term: {str(bias).lower()} {FILL} }}"
    )
    one = check_layer("InnerProduct", params, [x], engine=engine)
    w = one.layer.blobs[0].data.astype(np.float64)
    k = 12 if axis == 1 else 4
    assert w.shape == ((k, 5) if transpose else (5, k))
    rows = x.reshape(*x.shape[:axis], k).astype(np.float64)
    expected = rows @ (w if transpose else w.T)
    assert_near(one.forward(x)[0], expected + (one.layer.blobs[1].data if bias else 0))


def test_the_input_size_is_fixed(reference_engine: Engine) -> None:
    text = layer_text("InnerProduct", "inner_product_param { num_output: 2 }", 1)
    one = OneLayer(text, [np.zeros((2, 3))], reference_engine)
    with pytest.raises(ShapeError, match=r"4 values per item.*made for 3"):
        one.feed([np.zeros((2, 4))])
    with pytest.raises(ParameterError, match="num_output"):
        OneLayer(layer_text("InnerProduct", "", 1), [np.zeros((2, 3))], reference_engine)


def test_weights_that_do_not_learn_get_no_gradient(engine: Engine, rng) -> None:
    text = layer_text("InnerProduct", f"inner_product_param {{ num_output: 2 {FILL} }}", 1)
    one = OneLayer(text, [rng.normal(size=(2, 3))], engine)
    one.layer.param_propagate_down = [False, True]
    one.forward()
    one.backward([np.ones((2, 2))])
    assert not one.layer.blobs[0].diff.any()
    assert one.layer.blobs[1].diff.tolist() == [2, 2]


@pytest.mark.parametrize("bias", [False, True])
def test_embed_looks_rows_up_and_adds_repeats(bias: bool, engine: Engine) -> None:
    params = f"embed_param {{ num_output: 3 input_dim: 4 bias_term: {str(bias).lower()} {FILL} }}"
    index = np.array([[1, 3], [3, 3]], np.float32)
    one = check_layer("Embed", params, [index], flags=[False], engine=engine)
    w = one.layer.blobs[0].data
    expected = w[index.astype(int)] + (one.layer.blobs[1].data if bias else 0)
    assert_near(one.forward(index)[0], expected)
    w_diff = one.layer.blobs[0].diff
    w_diff.fill(0)
    one.backward([np.ones((2, 2, 3))], [False])
    assert w_diff.tolist() == [[0] * 3, [1] * 3, [0] * 3, [3] * 3]


def test_wrong_indices_and_gradients_to_indices_are_refused(reference_engine: Engine) -> None:
    text = layer_text("Embed", "embed_param { num_output: 2 input_dim: 3 }", 1)
    one = OneLayer(text, [np.zeros((2, 2))], reference_engine)
    with pytest.raises(DataError, match=r"index 5 of item 1 .* not in 0 … 2") as caught:
        one.forward(np.array([[0, 1], [5, 3]]))
    assert caught.value.fix == "correct the data, or give the layer more than 5 rows"
    one.forward(np.zeros((2, 2)))
    with pytest.raises(NetError, match="cannot backpropagate to its indices"):
        one.backward([np.ones((2, 2, 2))], [True])
    with pytest.raises(ParameterError, match="input_dim 0"):
        OneLayer(
            layer_text("Embed", "embed_param { num_output: 2 }", 1), [np.zeros(2)], reference_engine
        )
