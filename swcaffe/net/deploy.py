"""From a training definition to one for use: inputs for data, predictions for losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swcaffe.arrays import Shape
from swcaffe.errors import NetError
from swcaffe.proto import messages
from swcaffe.proto.messages import Message

__all__ = ["deploy_net"]

PREDICTION = {"SoftmaxWithLoss": "Softmax", "SigmoidCrossEntropyLoss": "Sigmoid"}
"""Loss layer -> the layer that makes its prediction."""


def _prediction(layer: Message) -> Message:
    """The layer that turns a loss layer's scores into probabilities."""
    made = messages.LayerParameter(
        name="prob", type=PREDICTION[layer.type], bottom=layer.bottom[:1]
    )
    made.top.append("prob")
    if layer.HasField("softmax_param"):
        made.softmax_param.CopyFrom(layer.softmax_param)
    return made


def _needs(layer: Message, known: set[str]) -> list[str]:
    return [name for name in layer.bottom if name not in known]


def deploy_net(name: str, layers: Sequence[Message], inputs: Mapping[str, Shape]) -> Message:
    """A NetParameter that takes `inputs` (blob name -> shape) and needs no labels.

    layers   those of the TEST phase, in order, without Split layers
    Layers without bottoms are left out, as is everything that needs a blob of theirs other than
    `inputs` (labels): accuracies go, losses become predictions. Raises NetError if nothing is left.
    """
    net = messages.NetParameter(name=name)
    source = net.layer.add(name="data", type="Input", top=list(inputs))
    for shape in inputs.values():
        source.input_param.shape.add(dim=shape)
    known, predictions = set(inputs), []
    for layer in layers:
        missing = _needs(layer, known)
        if layer.bottom and not missing:
            copy = net.layer.add()
            copy.CopyFrom(layer)
            for field in ("include", "exclude", "phase", "loss_weight"):
                copy.ClearField(field)
            known.update(layer.top)
        elif missing and layer.type in PREDICTION and layer.bottom[0] in known:
            predictions.append(_prediction(layer))
    for i, layer in enumerate(predictions):
        if i:
            layer.name = layer.top[0] = f"prob{i + 1}"
        net.layer.append(layer)
    if len(net.layer) == 1:
        raise NetError(
            f"nothing of net {name!r} depends on {', '.join(inputs)} alone",
            fix="name the blobs that hold data with --input",
        )
    return net
