"""include and exclude rules."""

from __future__ import annotations

import pytest

from swcaffe.errors import NetError
from swcaffe.net.definition import Definition, definition_of
from swcaffe.net.filters import filter_net
from swcaffe.net.splits import insert_splits
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse

TRAIN, TEST = 0, 1


def kept(rule: str, **state: object) -> bool:
    text = f'layer {{ name: "x" type: "Input" top: "x" {rule} }}'
    return bool(filter_net(define(text, **state)).layers)


def define(text: str, **state: object) -> Definition:
    parsed = parse(text, messages.NetParameter, name="net.prototxt")
    return definition_of(parsed.message, messages.NetState(**state), parsed)


@pytest.mark.parametrize(
    ("rule", "state", "expected"),
    [
        ("", {"phase": TEST}, True),
        ("include {}", {"phase": TEST}, True),
        ("include { phase: TRAIN }", {"phase": TRAIN}, True),
        ("include { phase: TRAIN }", {"phase": TEST}, False),
        ("exclude { phase: TRAIN }", {"phase": TEST}, True),
        ("exclude { phase: TRAIN }", {"phase": TRAIN}, False),
        ("include { phase: TRAIN } include { stage: 'a' }", {"phase": TEST, "stage": ["a"]}, True),
        ("include { phase: TRAIN stage: 'a' }", {"phase": TEST, "stage": ["a"]}, False),
        ("include { stage: 'a' stage: 'b' }", {"stage": ["a"]}, False),
        ("include { stage: 'a' stage: 'b' }", {"stage": ["b", "c", "a"]}, True),
        ("include { not_stage: 'a' }", {"stage": ["a"]}, False),
        ("include { not_stage: 'a' }", {"stage": ["b"]}, True),
        ("include { min_level: 2 }", {"level": 1}, False),
        ("include { min_level: 2 max_level: 4 }", {"level": 4}, True),
        ("include { min_level: 2 max_level: 4 }", {"level": 5}, False),
        ("exclude { min_level: 2 }", {"level": 2}, False),
    ],
)
def test_rules(rule: str, state: dict[str, object], expected: bool) -> None:
    assert kept(rule, **state) is expected


def test_include_and_exclude_together_are_refused_with_the_line() -> None:
    with pytest.raises(NetError, match=r"net\.prototxt:1: .*both include and exclude"):
        kept("include { phase: TRAIN } exclude { stage: 'a' }")


STAGED = """
layer { name: "train_db" type: "Input" top: "data" include { stage: "train" } }
layer { name: "val_db" type: "Input" top: "data" include { stage: "val" } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" }
"""


@pytest.mark.parametrize("stage", ["train", "val"])
def test_nets_with_stages_only_work_with_a_stage(stage: str) -> None:
    built = insert_splits(filter_net(define(STAGED, stage=[stage])))
    assert [layer.name for layer in built.layers] == [f"{stage}_db", "ip"]


def test_nets_with_stages_only_explain_what_the_rules_removed() -> None:
    with pytest.raises(NetError) as caught:
        insert_splits(filter_net(define(STAGED)))
    text = str(caught.value)
    assert 'no layer produces blob "data"' in text
    assert '"train_db"' in text
    assert '"val_db"' in text
    assert "stage 'train'" in text
