"""Nets as wholes: wiring, outputs, backward analysis, sharing, reshaping, errors with places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import swcaffe.layers  # noqa: F401  registers the layer types
from swcaffe.engine.engine import Engine, create_engine
from swcaffe.engine.recording import RecordingEngine
from swcaffe.errors import NetError, ParameterError, ShapeError
from swcaffe.net.definition import definition_of, merged_state
from swcaffe.net.layer import Phase
from swcaffe.net.net import BuildOptions, Net
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse

Build = Callable[..., Net]


@pytest.fixture
def build(reference_engine: Engine) -> Build:
    def make(text: str, phase: Phase = Phase.TRAIN, seed: int = 1) -> Net:
        parsed = parse(text, messages.NetParameter, name="net.prototxt")
        state = merged_state(parsed.message.state, messages.NetState(phase=int(phase)))
        definition = definition_of(parsed.message, state, parsed)
        return Net(definition, BuildOptions(reference_engine, seed=seed))

    return make


TWO_HEADS = """
layer {{ name: "data" type: "Input" top: "data" top: "label"
  input_param {{ shape {{ dim: 4 dim: 6 }} shape {{ dim: 4 dim: 3 }} }} }}
layer {{ name: "fc" type: "InnerProduct" bottom: "data" top: "fc"
  inner_product_param {{ num_output: 5 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "a" type: "InnerProduct" bottom: "fc" top: "a"
  inner_product_param {{ num_output: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "b" type: "InnerProduct" bottom: "fc" top: "b" {b}
  inner_product_param {{ num_output: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "la" type: "EuclideanLoss" bottom: "a" bottom: "label" {la} }}
layer {{ name: "lb" type: "EuclideanLoss" bottom: "b" bottom: "label" top: "lb" {lb} }}
"""


def run(net: Net, rng: np.random.Generator) -> float:
    for name in ("data", "label"):
        blob = net.blob(name)
        blob.data[...] = rng.normal(size=blob.shape)
    net.clear_param_diffs()
    loss = net.forward()
    net.backward()
    return loss


def test_a_loss_layer_without_top_gets_one_and_counts(
    build: Build, rng: np.random.Generator
) -> None:
    net = build(TWO_HEADS.format(b="", la="", lb=""))
    assert net.blob_names.count("(automatic)") == 1
    assert [net.blob_names[i] for i in net.outputs] == ["lb"]
    loss = run(net, rng)
    parts = [float(net.blobs[i].data) for i in range(len(net.blobs)) if not net.blobs[i].shape]
    assert len(parts) == 2
    assert loss == pytest.approx(sum(parts), rel=1e-6)


def test_a_loss_of_weight_zero_adds_nothing(build: Build) -> None:
    """Case B22: loss and gradients are those of the net without the second loss."""
    text = TWO_HEADS.format(b="", la="", lb="loss_weight: 0")
    both, only = build(text), build(text[: text.index('layer { name: "lb"')])
    assert run(both, np.random.default_rng(5)) == run(only, np.random.default_rng(5))
    for ours, theirs in zip(both.params, only.params, strict=True):
        np.testing.assert_array_equal(ours.blob.diff, theirs.blob.diff)
        assert ours.blob.diff.any() == (ours.layer.name != "b")


def test_propagate_down_false_stops_the_gradient(build: Build, rng: np.random.Generator) -> None:
    free = build(TWO_HEADS.format(b="", la="loss_weight: 0", lb=""))
    cut = build(TWO_HEADS.format(b="propagate_down: false", la="loss_weight: 0", lb=""))
    run(free, np.random.default_rng(3))
    run(cut, np.random.default_rng(3))

    def diff(net: Net, layer: str) -> np.ndarray:
        return next(p for p in net.params if p.layer.name == layer).blob.diff

    assert diff(free, "fc").any()
    assert not diff(cut, "fc").any()
    np.testing.assert_array_equal(diff(free, "b"), diff(cut, "b"))


def test_outputs_come_in_byte_order_of_their_names(build: Build) -> None:
    net = build("""
      layer { name: "in" type: "Input" top: "b" top: "a" top: "Z" input_param { shape { dim: 1 } } }
    """)
    assert [net.blob_names[i] for i in net.outputs] == ["Z", "a", "b"]
    assert [net.blob_names[i] for i in net.inputs] == ["b", "a", "Z"]


def test_two_layers_with_one_top_are_named_with_their_lines(build: Build) -> None:
    with pytest.raises(NetError) as caught:
        build("""layer { name: "one" type: "Input" top: "data" input_param { shape { dim: 1 } } }
          layer { name: "two" type: "Input" top: "data" input_param { shape { dim: 1 } } }""")
    text = str(caught.value)
    assert text.startswith("net.prototxt:2: ")
    assert '"one" (net.prototxt:1)' in text
    assert '"two"' in text


def test_two_layers_with_weights_need_two_names(build: Build) -> None:
    head = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: [1, 2] } } }\n'
    ip = 'layer {{ name: "{}" type: "InnerProduct" bottom: "x" top: "{}" {} }}\n'
    param = "inner_product_param { num_output: 2 }"
    with pytest.raises(NetError, match=r'prototxt:3: .*"ip" .* at net\.prototxt:2 has this name'):
        build(head + ip.format("ip", "a", param) + ip.format("ip", "b", param))
    silent = 'layer { name: "ip" type: "ReLU" bottom: "a" top: "a" }'
    assert len(build(head + ip.format("ip", "a", param) + silent).layers) == 3


def test_an_unknown_type_lists_near_and_known_ones_with_its_line(build: Build) -> None:
    with pytest.raises(NetError, match=r'net\.prototxt:2: layer "c".*Convoluton.*Convolution'):
        build('\nlayer { name: "c" type: "Convoluton" top: "x" }')


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        ('type: "ReLU" bottom: "x"', "takes 1 top"),
        (
            'type: "ReLU" bottom: "x" top: "y" propagate_down: true propagate_down: false',
            "2 propagate_down",
        ),
        ('type: "Flatten" bottom: "x" top: "x"', "in place"),
        ('type: "ReLU" bottom: "x" top: "y" param { lr_mult: 1 }', "1 param entries"),
        ('type: "ReLU" bottom: "x" top: "y" loss_weight: 1 loss_weight: 2', "2 loss_weight"),
    ],
)
def test_wrong_wiring_is_refused(build: Build, layer: str, text: str) -> None:
    with pytest.raises(NetError, match=text) as caught:
        build(
            'layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }\n'
            f'layer {{ name: "l" {layer} }}'
        )
    assert 'layer "l"' in str(caught.value)


SHARED = """
layer {{ name: "data" type: "Input" top: "x" input_param {{ shape {{ dim: 4 dim: 3 }} }} }}
layer {{ name: "a" type: "InnerProduct" bottom: "x" top: "y" param {{ name: "w" {one} }}
  inner_product_param {{ num_output: 3 bias_term: false weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "b" type: "InnerProduct" bottom: "y" top: "z" param {{ name: "w" {two} }}
  inner_product_param {{ num_output: {n} bias_term: false weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "EuclideanLoss" bottom: "z" bottom: "x" top: "loss" }}
"""


def test_shared_weights_are_one_memory_and_add_their_gradients(build: Build) -> None:
    net = build(SHARED.format(one="", two="", n=3))
    a, b = net.params
    assert (a.is_owner, b.is_owner, len(net.learnable_params)) == (True, False, 1)
    a.blob.data[0, 0] = 7
    assert b.blob.data[0, 0] == 7
    net.blob("x").data[...] = np.arange(12).reshape(4, 3)
    net.forward()
    net.backward()
    w, x = a.blob.data.astype(np.float64), net.blob("x").data.astype(np.float64)
    dz = (x @ w.T @ w.T - x) / 4
    expected = dz.T @ (x @ w.T) + (dz @ w).T @ x
    np.testing.assert_allclose(a.blob.diff, expected, rtol=1e-4)


def test_sharers_may_set_what_the_owner_leaves_open(build: Build) -> None:
    net = build(SHARED.format(one="", two="lr_mult: 3", n=3))
    assert net.params[0].lr_mult == 3
    with pytest.raises(ParameterError, match=r"lr_mult 2 .* and 3"):
        build(SHARED.format(one="lr_mult: 2", two="lr_mult: 3", n=3))


def test_sharers_of_other_shape_are_refused(build: Build) -> None:
    with pytest.raises(ShapeError, match=r'"w" is \(3, 3\) in its owner, layer "a", and \(2, 3\)'):
        build(
            SHARED.format(one="", two="", n=2).replace(
                'bottom: "x" top: "loss"', 'bottom: "z" top: "loss"'
            )
        )


IMAGE_NET = """
layer {{ name: "data" type: "Input" top: "data"
  input_param {{ shape {{ dim: {n} dim: 2 dim: {h} dim: {w} }} }} }}
layer {{ name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param {{ num_output: 3 kernel_size: 3 pad: 1 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param {{ kernel_size: 2 stride: 2 }} }}
layer {{ name: "r" type: "ReLU" bottom: "p" top: "p" }}
"""


def test_reshaped_nets_equal_fresh_ones(build: Build, rng: np.random.Generator) -> None:
    net = build(IMAGE_NET.format(n=8, h=6, w=6))
    for n, h, w in ((2, 6, 6), (9, 6, 6), (2, 6, 10)):
        image = rng.normal(size=(n, 2, h, w)).astype(np.float32)
        net.blob("data").reshape(image.shape)
        net.blob("data").data[...] = image
        net.forward()
        fresh = build(IMAGE_NET.format(n=n, h=h, w=w))
        fresh.blob("data").data[...] = image
        fresh.forward()
        assert net.blob("p").shape == fresh.blob("p").shape
        np.testing.assert_array_equal(net.blob("p").data, fresh.blob("p").data)


def test_the_work_of_a_reshaped_net_follows_its_size(rng: np.random.Generator) -> None:
    """Case D12: 256, 16, 300 pictures; each pass equals a fresh net's, in results and in work."""
    engine = RecordingEngine(create_engine("host", threads=1))

    def build_for(n: int) -> Net:
        parsed = parse(IMAGE_NET.format(n=n, h=32, w=32), messages.NetParameter)
        definition = definition_of(parsed.message, messages.NetState(), parsed)
        return Net(definition, BuildOptions(engine, seed=1))

    def work(net: Net, image: np.ndarray) -> list[tuple[str, int]]:
        net.blob("data").reshape(image.shape)
        net.blob("data").data[...] = image
        net.forward()
        return [(type(plan.op).__name__, plan.op.flops) for plan in engine.take()]

    used = build_for(256)
    for n in (256, 16, 300):
        image = rng.normal(size=(n, 2, 32, 32)).astype(np.float32)
        fresh = build_for(n)
        engine.take()
        assert work(used, image) == work(fresh, image)
        np.testing.assert_array_equal(used.blob("p").data, fresh.blob("p").data)


def test_force_backward_reaches_the_input(build: Build) -> None:
    text = IMAGE_NET.format(n=1, h=4, w=4) + 'layer { name: "l" type: "Silence" bottom: "p" }'
    plain, forced = build(text), build("force_backward: true\n" + text)
    assert not any(node.needs_backward for node in plain.nodes)
    assert forced.nodes[1].propagate_down == [True]


def test_same_seed_same_weights_and_other_seed_others(build: Build) -> None:
    text = IMAGE_NET.format(n=1, h=4, w=4)
    one, same, other = build(text, seed=3), build(text, seed=3), build(text, seed=4)
    np.testing.assert_array_equal(one.params[0].blob.data, same.params[0].blob.data)
    assert (one.params[0].blob.data != other.params[0].blob.data).any()


def test_errors_while_running_name_layer_and_line(build: Build) -> None:
    net = build(IMAGE_NET.format(n=1, h=4, w=4))
    net.blob("data").reshape((1, 3, 4, 4))
    with pytest.raises(ShapeError, match=r'net\.prototxt:4: layer "c" \(Convolution\)'):
        net.forward()
    net.blob("data").reshape((1, 2, 4, 4))
    net.forward()


def test_callbacks_get_every_layer_index(build: Build) -> None:
    net = build(IMAGE_NET.format(n=1, h=4, w=4))
    seen: list[tuple[str, int]] = []
    net.before_forward.append(lambda i: seen.append(("before", i)))
    net.after_backward.append(lambda i: seen.append(("back", i)))
    net.forward()
    net.backward()
    assert seen == [*(("before", i) for i in range(4)), *(("back", i) for i in (3, 2, 1, 0))]


def test_memory_is_known_before_it_is_allocated_and_counts_shared_memory_once(build: Build) -> None:
    net = build("""
      layer { name: "d" type: "Input" top: "x" input_param { shape { dim: 1000 dim: 50 } } }
      layer { name: "i" type: "InnerProduct" bottom: "x" top: "y"
        inner_product_param { num_output: 7 } }
      layer { name: "r" type: "ReLU" bottom: "y" top: "y" }
      layer { name: "f" type: "Flatten" bottom: "y" top: "f" }
      layer { name: "a" type: "Silence" bottom: "f" }
      layer { name: "l" type: "EuclideanLoss" bottom: "f" bottom: "f" top: "l" }
    """)
    assert all(blob._data.flat is None for blob in net.blobs)
    memory = net.memory()
    assert memory.parameters == 4 * (7 * 50 + 7)
    assert memory.activations == 4 * (50_000 + 7_000 + 1)
    assert memory.gradients == 4 * (7_000 + 3 * 7_000 + 1)  # one for each of f's three readers
    assert memory.listed == 4 * (50_000 + 6 * 7_000 + 1)
