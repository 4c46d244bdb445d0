"""The nets in prototxt_models: what their pages say of them, and that both definitions agree."""

from __future__ import annotations

import re
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
from swcaffe.proto.prototxt import read_solver

ROOT = Path(__file__).parent.parent.parent
MODELS = sorted(path.parent for path in ROOT.glob("prototxt_models/*/train_val.prototxt"))
GREY, COLOUR = (1, 1, 28, 28), (1, 3, 32, 32)

models = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


def fed_net(model: Path, engine: Engine) -> Net:
    """The training definition without its databases."""
    shape = GREY if "data/mnist" in (model / "train_val.prototxt").read_text() else COLOUR
    found = filter_net(read_definition(model / "train_val.prototxt", Phase.TEST))
    net = deploy_net(found.name, found.layers, {"data": shape})
    state = messages.NetState(phase=int(Phase.TEST))
    return Net(definition_of(net, state), BuildOptions(engine))


def weights(net: Net) -> dict[str, list[Shape]]:
    return {layer.name: [b.shape for b in layer.blobs] for layer in net.layers if layer.blobs}


@models
def test_a_page_gives_the_number_of_learned_weights(model: Path, reference_engine: Engine) -> None:
    """BatchNorm's statistics are kept beside the weights, and are not learned."""
    net = fed_net(model, reference_engine)
    blobs = [b for layer in net.layers if layer.type != "BatchNorm" for b in layer.blobs]
    said = re.findall(r"\b([\d,]+)\s+weights", (model / "README.md").read_text())
    assert said == [f"{sum(blob.count for blob in blobs):,}"]


@models
def test_the_deploy_definition_takes_the_weights_of_the_training_one(
    model: Path, reference_engine: Engine
) -> None:
    deploy = model / "deploy.prototxt"
    if not deploy.exists():
        assert "autoencoder" in model.name
        return
    with_losses = weights(fed_net(model, reference_engine))
    built = Net.from_file(deploy, Phase.TEST, BuildOptions(reference_engine))
    assert weights(built) == with_losses
    assert [built.blob_names[i] for i in built.outputs] == ["prob"]


@models
def test_the_solver_names_the_net_beside_it(model: Path) -> None:
    param = read_solver(model / "solver.prototxt").message
    assert ROOT / param.net == model / "train_val.prototxt"
    assert f"prototxt_models/{model.name}/solver.prototxt" in (model / "README.md").read_text()
