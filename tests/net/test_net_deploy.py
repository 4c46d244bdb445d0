"""Deploy definitions made from training ones."""

from __future__ import annotations

from pathlib import Path

import pytest

import swcaffe.layers  # noqa: F401  registers the layer types
from swcaffe.engine.engine import Engine
from swcaffe.errors import NetError
from swcaffe.net.definition import definition_of, read_definition
from swcaffe.net.deploy import deploy_net
from swcaffe.net.filters import filter_net
from swcaffe.net.layer import Phase
from swcaffe.net.net import BuildOptions, Net
from swcaffe.proto import messages
from swcaffe.proto.messages import Message
from swcaffe.proto.prototxt import read_net

MODELS = Path(__file__).parents[2] / "prototxt_models"
SHAPES = {
    "lenet": (64, 1, 28, 28),
    "cifar10_quick": (1, 3, 32, 32),
    "cifar10_full": (1, 3, 32, 32),
    "resnet_small": (1, 3, 32, 32),
}


def deployed(model: str, shape: tuple[int, ...]) -> Message:
    definition = filter_net(read_definition(MODELS / model / "train_val.prototxt", Phase.TEST))
    return deploy_net(definition.name, definition.layers, {"data": shape})


@pytest.mark.parametrize("model", SHAPES)
def test_the_shipped_deploy_files_are_what_the_helper_makes(model: str) -> None:
    shipped = read_net(MODELS / model / "deploy.prototxt").message
    assert deployed(model, SHAPES[model]) == shipped


def test_the_result_runs_without_labels(reference_engine: Engine) -> None:
    message = deployed("lenet", (2, 1, 28, 28))
    net = Net(definition_of(message, messages.NetState()), BuildOptions(reference_engine))
    net.forward()
    assert [net.blob_names[i] for i in net.outputs] == ["prob"]
    assert net.blob("prob").data.sum(axis=1) == pytest.approx([1, 1], rel=1e-5)


def test_unknown_inputs_leave_nothing() -> None:
    layers = read_definition(MODELS / "lenet" / "train_val.prototxt", Phase.TEST).layers
    with pytest.raises(NetError, match="nothing of net 'x' depends on dat alone"):
        deploy_net("x", layers, {"dat": (1,)})
