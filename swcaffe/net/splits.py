"""Split insertion: a blob with several consumers gets one copy of its gradient for each.

Names are Caffe's: layer `<blob>_<producer>_<top index>_split`, tops with `_0`, `_1`, … behind. A
top with an explicit loss weight counts as a consumer of its own, the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from swcaffe.errors import NetError
from swcaffe.net.definition import Definition
from swcaffe.proto import messages
from swcaffe.proto.messages import Message

__all__ = ["insert_splits"]

Top = tuple[int, int]
"""(layer index, top index)."""


@dataclass
class _Uses:
    """Who makes and who reads each top of a definition."""

    producer: dict[tuple[int, int], Top]  # (layer, bottom index) -> the top it reads
    consumers: dict[Top, int]
    has_loss: set[Top]


def _unknown_bottom(definition: Definition, i: int, bottom: str) -> NetError:
    layer = definition.layers[i]
    makers = [r for r in definition.removed if bottom in r.tops]
    later = [other.name for other in definition.layers[i + 1 :] if bottom in other.top]
    if makers:
        names = ", ".join(f'"{r.name}" ({r.rule}, {r.where})' for r in makers)
        message = (
            f'no layer produces blob "{bottom}" that layer "{layer.name}" reads; '
            f"removed by phase, level or stage rules: {names}"
        )
        fix = "choose the phase or stage that keeps one of them, or restrict this layer likewise"
    elif later:
        message = f'layer "{layer.name}" reads blob "{bottom}" before layer "{later[0]}" makes it'
        fix = f'move layer "{later[0]}" up'
    else:
        message = f'unknown bottom blob "{bottom}" of layer "{layer.name}" ({layer.type})'
        fix = (
            "this net has no labels: remove the layer, or restrict it to a phase that has them "
            "with include { phase: TRAIN }"
            if bottom.startswith("label")
            else "check the name, or add the layer that makes it"
        )
    return NetError(message, where=definition.where[i], fix=fix)


def _uses(definition: Definition) -> _Uses:
    uses = _Uses({}, {}, set())
    current: dict[str, Top] = {}
    for i, layer in enumerate(definition.layers):
        for j, bottom in enumerate(layer.bottom):
            if bottom not in current:
                raise _unknown_bottom(definition, i, bottom)
            top = current[bottom]
            uses.producer[i, j] = top
            uses.consumers[top] = uses.consumers.get(top, 0) + 1
        for j, name in enumerate(layer.top):
            current[name] = (i, j)
            if j < len(layer.loss_weight) and layer.loss_weight[j]:
                uses.has_loss.add((i, j))
                uses.consumers[i, j] = uses.consumers.get((i, j), 0) + 1
    return uses


def _split_layer(layer: Message, top: int, count: int, with_loss: bool) -> Message:
    blob = layer.top[top]
    split = messages.LayerParameter(name=f"{blob}_{layer.name}_{top}_split", type="Split")
    split.bottom.append(blob)
    split.top.extend(f"{split.name}_{k}" for k in range(count))
    if with_loss:
        split.loss_weight.extend([layer.loss_weight[top]] + [0.0] * (count - 1))
    return split


def insert_splits(definition: Definition) -> Definition:
    """Insert Split layers behind every top that has more than one consumer.

    Raises NetError for a bottom that no earlier layer makes.
    """
    uses = _uses(definition)
    layers: list[Message] = []
    where: list[str] = []
    given: dict[Top, int] = {}  # next copy of each split top
    for i, original in enumerate(definition.layers):
        layer = messages.LayerParameter()
        layer.CopyFrom(original)
        for j in range(len(layer.bottom)):
            i_top, j_top = uses.producer[i, j]
            if uses.consumers[i_top, j_top] > 1:
                maker = definition.layers[i_top]
                copy = given.get((i_top, j_top), int((i_top, j_top) in uses.has_loss))
                given[i_top, j_top] = copy + 1
                blob = maker.top[j_top]
                layer.bottom[j] = f"{blob}_{maker.name}_{j_top}_split_{copy}"
        layers.append(layer)
        where.append(definition.where[i])
        for j in range(len(layer.top)):
            count = uses.consumers.get((i, j), 0)
            if count > 1:
                with_loss = (i, j) in uses.has_loss
                layers.append(_split_layer(original, j, count, with_loss))
                where.append(definition.where[i])
                if with_loss:
                    del layer.loss_weight[:]
    return replace(definition, layers=tuple(layers), where=tuple(where))
