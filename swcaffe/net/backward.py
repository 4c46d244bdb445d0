"""Which layers run backward, and to which bottoms: Caffe's two sweeps over the wired net."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LayerFacts", "Needs", "backward_needs"]


@dataclass(frozen=True, slots=True)
class LayerFacts:
    """What the analysis must know about one layer, in net order.

    bottoms, tops      blob names
    learns             whether any of its parameters has lr_mult other than 0
    propagate_down     the prototxt's list: empty, or one flag per bottom
    loss_weights       one per top
    can_force          per bottom, whether force_backward may apply to it
    """

    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    learns: bool
    propagate_down: tuple[bool, ...]
    loss_weights: tuple[float, ...]
    can_force: tuple[bool, ...]


@dataclass
class Needs:
    """Result for one layer: does it run backward, and for which bottoms."""

    layer: bool
    bottoms: list[bool]


def _forward_sweep(layers: Sequence[LayerFacts]) -> list[Needs]:
    wanted: dict[str, bool] = {}  # blob name -> a gradient to it would be of use
    needs = []
    for facts in layers:
        own = [wanted[b] for b in facts.bottoms]
        layer = any(own) or facts.learns
        bottoms = list(facts.propagate_down) if facts.propagate_down else own
        needs.append(Needs(layer, bottoms))
        wanted.update(dict.fromkeys(facts.tops, layer))
    return needs


def _backward_sweep(layers: Sequence[LayerFacts], needs: list[Needs]) -> None:
    under_loss: set[str] = set()
    skip: set[str] = set()
    for facts, need in zip(reversed(layers), reversed(needs), strict=True):
        contributes = any(
            w != 0 or top in under_loss
            for w, top in zip(facts.loss_weights, facts.tops, strict=True)
        )
        if need.layer and all(top in skip for top in facts.tops):
            need.layer, need.bottoms = False, [False] * len(facts.bottoms)
        if contributes:
            under_loss.update(facts.bottoms)
        else:
            need.layer, need.bottoms = False, [False] * len(facts.bottoms)
        skip.update(b for b, flag in zip(facts.bottoms, need.bottoms, strict=True) if not flag)


def backward_needs(layers: Sequence[LayerFacts], force_backward: bool) -> list[Needs]:
    """Needs of every layer.

    Forward: a blob wants a gradient if its layer, or any above it, has something to learn.
    Backward: only what lies under a loss and is not cut off by propagate_down runs.
    force_backward: everything runs, except to bottoms that refuse (labels).
    """
    needs = _forward_sweep(layers)
    _backward_sweep(layers, needs)
    if force_backward:
        for facts, need in zip(layers, needs, strict=True):
            need.layer = True
            need.bottoms = [a or b for a, b in zip(need.bottoms, facts.can_force, strict=True)]
    return needs
