"""Split insertion, with the names Caffe gives."""

from __future__ import annotations

import pytest

from swcaffe.errors import NetError
from swcaffe.net.definition import Definition, definition_of
from swcaffe.net.splits import insert_splits
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse


def define(text: str) -> Definition:
    parsed = parse(text, messages.NetParameter, name="net.prototxt")
    return definition_of(parsed.message, messages.NetState(), parsed)


def wiring(definition: Definition) -> list[tuple[str, list[str], list[str]]]:
    return [(x.name, list(x.bottom), list(x.top)) for x in definition.layers]


def test_a_blob_read_twice_gets_a_split_behind_its_producer() -> None:
    net = define("""
        layer { name: "data" type: "Input" top: "data" top: "label" }
        layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" }
        layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
        layer { name: "acc" type: "Accuracy" bottom: "ip" bottom: "label" top: "acc" }
    """)
    assert wiring(insert_splits(net)) == [
        ("data", [], ["data", "label"]),
        ("label_data_1_split", ["label"], ["label_data_1_split_0", "label_data_1_split_1"]),
        ("ip", ["data"], ["ip"]),
        ("ip_ip_0_split", ["ip"], ["ip_ip_0_split_0", "ip_ip_0_split_1"]),
        ("loss", ["ip_ip_0_split_0", "label_data_1_split_0"], ["loss"]),
        ("acc", ["ip_ip_0_split_1", "label_data_1_split_1"], ["acc"]),
    ]


def test_the_split_of_an_in_place_chain_is_named_after_its_last_layer() -> None:
    net = define("""
        layer { name: "data" type: "Input" top: "data" }
        layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" }
        layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" }
        layer { name: "a" type: "InnerProduct" bottom: "ip" top: "a" }
        layer { name: "b" type: "InnerProduct" bottom: "ip" top: "b" }
    """)
    names = [layer.name for layer in insert_splits(net).layers]
    assert names == ["data", "ip", "relu", "ip_relu_0_split", "a", "b"]


def test_an_explicit_loss_weight_takes_the_first_copy() -> None:
    net = define("""
        layer { name: "data" type: "Input" top: "data" top: "label" }
        layer { name: "l1" type: "EuclideanLoss" bottom: "data" bottom: "label" top: "l1" loss_weight: 2 }
        layer { name: "p" type: "Silence" bottom: "l1" }
    """)
    layers = insert_splits(net).layers
    split = layers[2]
    assert (split.name, list(split.top)) == (
        "l1_l1_0_split",
        ["l1_l1_0_split_0", "l1_l1_0_split_1"],
    )
    assert list(split.loss_weight) == [2.0, 0.0]
    assert list(layers[1].loss_weight) == []
    assert list(layers[3].bottom) == ["l1_l1_0_split_1"]


def test_a_zero_loss_weight_makes_no_split() -> None:
    net = define("""
        layer { name: "data" type: "Input" top: "a" }
        layer { name: "s" type: "Sigmoid" bottom: "a" top: "b" loss_weight: 0 }
        layer { name: "p" type: "Silence" bottom: "b" }
    """)
    assert len(insert_splits(net).layers) == 3


def test_the_input_is_not_changed() -> None:
    net = define("""
        layer { name: "data" type: "Input" top: "a" }
        layer { name: "s" type: "Silence" bottom: "a" bottom: "a" }
    """)
    before = [layer.SerializeToString() for layer in net.layers]
    insert_splits(net)
    assert [layer.SerializeToString() for layer in net.layers] == before


def test_labels_missing_in_a_deploy_net_are_explained() -> None:
    net = define("""layer { name: "data" type: "Input" top: "data" }
        layer { name: "acc" type: "Accuracy" bottom: "data" bottom: "label" top: "acc" }
    """)
    with pytest.raises(NetError) as caught:
        insert_splits(net)
    text = str(caught.value)
    assert text.startswith("net.prototxt:2: ")
    assert '"label"' in text
    assert '"acc"' in text
    assert "remove the layer" in text


def test_a_bottom_made_later_says_so() -> None:
    net = define("""
        layer { name: "r" type: "ReLU" bottom: "x" top: "y" }
        layer { name: "data" type: "Input" top: "x" }
    """)
    with pytest.raises(NetError, match='reads blob "x" before layer "data" makes it'):
        insert_splits(net)
