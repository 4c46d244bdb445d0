"""The nets in prototxt_models: what their pages say of them, and that both definitions agree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import swcaffe.layers  # noqa: F401  registers the layer types
from swcaffe.arrays import Shape
from swcaffe.engine.engine import Engine
from swcaffe.net.definition import definition_of, read_definition
from swcaffe.net.deploy import deploy_net
from swcaffe.net.filters import filter_net
from swcaffe.net.layer import Phase
from swcaffe.net.net import BuildOptions, Net
from swcaffe.proto import messages
from swcaffe.proto.messages import Message
from swcaffe.proto.prototxt import read_solver

ROOT = Path(__file__).parent.parent.parent
MODELS = sorted(path.parent for path in ROOT.glob("prototxt_models/*/train_val.prototxt"))
WITHOUT_DEPLOY = {"mnist_autoencoder": {"data": (1, 1, 28, 28)}}
"""Nets that are only for training, with the shapes of what they read."""

models = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def layers_of(path: Path) -> list[Message]:
    """The layers of a definition in the TEST phase, without fillers: zeros are made at once."""
    layers = []
    for original in filter_net(read_definition(path, Phase.TEST)).layers:
        layer = messages.LayerParameter()
        layer.CopyFrom(original)
        for field, value in layer.ListFields():
            fields = field.message_type.fields_by_name if field.message_type else {}
            for name in {"weight_filler", "bias_filler"}.intersection(fields):
                value.ClearField(name)
        layers.append(layer)
    return layers


def build(layers: Iterable[Message], engine: Engine) -> Net:
    net = messages.NetParameter(layer=layers)
    return Net(definition_of(net, messages.NetState(phase=int(Phase.TEST))), BuildOptions(engine))


def both_nets(model: Path, engine: Engine) -> tuple[Net, Net]:
    """The deploy net, and the training net fed with data of the same shapes."""
    training = layers_of(model / "train_val.prototxt")
    if model.name in WITHOUT_DEPLOY:
        fed = build(deploy_net("", training, WITHOUT_DEPLOY[model.name]).layer, engine)
        return fed, fed
    deploy = build(layers_of(model / "deploy.prototxt"), engine)
    shapes = {deploy.blob_names[i]: deploy.blobs[i].shape for i in deploy.inputs}
    return deploy, build(deploy_net("", training, shapes).layer, engine)


def weights(net: Net) -> dict[str, list[Shape]]:
    return {layer.name: [b.shape for b in layer.blobs] for layer in net.layers if layer.blobs}


def learned(net: Net) -> str:
    """Number of weights; BatchNorm's statistics are kept beside the weights, and are not learned."""
    blobs = [b for layer in net.layers if layer.type != "BatchNorm" for b in layer.blobs]
    return f"{sum(blob.count for blob in blobs):,}"


@models
def test_a_page_gives_the_number_of_weights_and_both_definitions_have_them(
    model: Path, reference_engine: Engine
) -> None:
    page = (model / "README.md").read_text(encoding="utf-8")
    deploy, training = both_nets(model, reference_engine)
    assert re.findall(r"\b([\d,]+)\s+(?:learned )?weights", page)[0] == learned(deploy)
    more = re.search(r"classifiers of training ([\d,]*\d)", page)
    assert learned(training) == (more[1] if more else learned(deploy))
    assert weights(deploy).items() <= weights(training).items()


@models
def test_a_deploy_net_ends_in_probabilities(model: Path) -> None:
    assert (model / "deploy.prototxt").exists() == (model.name not in WITHOUT_DEPLOY)
    if model.name not in WITHOUT_DEPLOY:
        layers = layers_of(model / "deploy.prototxt")
        assert layers[0].type == "Input"
        assert (layers[-1].type, list(layers[-1].top)) == ("Softmax", ["prob"])


@models
def test_the_solver_names_the_net_beside_it(model: Path) -> None:
    param = read_solver(model / "solver.prototxt").message
    assert ROOT / param.net == model / "train_val.prototxt"
    page = (model / "README.md").read_text(encoding="utf-8")
    assert f"    swcaffe train --solver prototxt_models/{model.name}/solver.prototxt" in page
