"""Which layers of a definition belong to a net in a given state (include and exclude rules)."""

from __future__ import annotations

from dataclasses import replace

from swcaffe.errors import NetError
from swcaffe.net.definition import Definition, Removed
from swcaffe.net.layer import Phase
from swcaffe.proto.messages import Message

__all__ = ["filter_net", "unmet"]


def unmet(rule: Message, state: Message) -> str:
    """The first condition of a NetStateRule that `state` does not meet, as text, or ""."""
    if rule.HasField("phase") and rule.phase != state.phase:
        return f"phase {Phase(rule.phase).name}"
    if rule.HasField("min_level") and state.level < rule.min_level:
        return f"min_level {rule.min_level}"
    if rule.HasField("max_level") and state.level > rule.max_level:
        return f"max_level {rule.max_level}"
    present = set(state.stage)
    for stage in rule.stage:
        if stage not in present:
            return f"stage {stage!r}"
    for stage in rule.not_stage:
        if stage in present:
            return f"not_stage {stage!r}"
    return ""


def _removal(layer: Message, state: Message, where: str) -> str:
    """Why `layer` is left out, or "" if it stays."""
    if layer.include and layer.exclude:
        raise NetError(
            f'layer "{layer.name}" ({layer.type}) has both include and exclude rules',
            where=where,
            fix="say it with one kind",
        )
    if layer.include:
        reasons = [unmet(rule, state) for rule in layer.include]
        return "" if "" in reasons else f"include {{ {' | '.join(reasons)} }}"
    if any(not unmet(rule, state) for rule in layer.exclude):
        return "exclude rule"
    return ""


def filter_net(definition: Definition) -> Definition:
    """Leave out the layers whose rules the state does not meet; they are listed in `removed`."""
    kept, removed = [], []
    for layer, where in zip(definition.layers, definition.where, strict=True):
        rule = _removal(layer, definition.state, where)
        if rule:
            removed.append(Removed(layer.name, where, tuple(layer.top), rule))
        else:
            kept.append((layer, where))
    return replace(
        definition,
        layers=tuple(layer for layer, _ in kept),
        where=tuple(where for _, where in kept),
        removed=tuple(removed),
    )
