"""Wiring: layers tied to blobs by name, in file order, with Caffe's rules."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from swcaffe.errors import NetError
from swcaffe.net.blob import Blob
from swcaffe.net.layer import Layer
from swcaffe.proto.messages import Message

__all__ = ["Node", "Wiring", "overwriters", "say"]

log = logging.getLogger(__name__)

AUTOMATIC_TOP = "(automatic)"


def say(text: str, *args: object) -> None:
    """Log a line under the name of Caffe's file for it, as readers of Caffe logs expect."""
    log.info(text, *args, extra={"origin": "net.cpp:1"})


def overwriters(layers: Sequence[Message]) -> list[tuple[str, ...]]:
    """For each layer, the types of the later ones that work in place on one of its tops."""
    in_place: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for i, layer in enumerate(layers):
        for bottom, top in zip(layer.bottom, layer.top, strict=False):
            if bottom == top:
                in_place[top].append((i, layer.type))
    return [
        tuple(kind for top in layer.top for j, kind in in_place.get(top, ()) if j > i)
        for i, layer in enumerate(layers)
    ]


@dataclass
class Node:
    """A layer in its place: its blobs, by index into the net's list, and what backward wants."""

    layer: Layer
    where: str
    bottom_ids: list[int]
    top_ids: list[int]
    loss_weights: list[float]
    needs_backward: bool = True
    propagate_down: list[bool] = field(default_factory=list)
    bottom_shapes: tuple[tuple[int, ...], ...] = ()


class Wiring:
    """The graph as it grows.

    available   blobs made and not yet read (Split layers make every blob read at most once)
    """

    def __init__(self) -> None:
        """No layers, no blobs."""
        self.nodes: list[Node] = []
        self.blobs: list[Blob] = []
        self.blob_names: list[str] = []
        self.inputs: list[int] = []
        self.available: dict[str, int] = {}
        self._producer: dict[str, int] = {}  # blob name -> node that made it

    def outputs(self) -> list[int]:
        """Blobs that nobody reads, in the byte order of their names."""
        return [self.available[name] for name in sorted(self.available, key=str.encode)]

    def connect(self, layer: Layer, where: str) -> Node:
        """Append a layer, tied to the blobs its prototxt names. Raises NetError."""
        param = layer.param
        if len(param.propagate_down) not in (0, len(param.bottom)):
            raise NetError(
                f"{len(param.propagate_down)} propagate_down flags for {len(param.bottom)} bottoms",
                fix="give none, or one per bottom",
            )
        node = Node(layer, where, [], [], [])
        for name in param.bottom:
            node.bottom_ids.append(self.available.pop(name))
            say("%s <- %s", layer.name, name)
        for j, name in enumerate(param.top):
            in_place = j < len(param.bottom) and param.bottom[j] == name
            if in_place:
                self._check_in_place(layer, name)
                index = node.bottom_ids[j]
            else:
                index = self._new_blob(name, layer)
            node.top_ids.append(index)
            self.available[name] = index
            self._producer[name] = len(self.nodes)
            if param.type == "Input":
                self.inputs.append(index)
            say("%s -> %s%s", layer.name, name, " (in-place)" if in_place else "")
        if layer.is_loss:
            while len(node.top_ids) < layer.tops.least:
                node.top_ids.append(self._new_blob(AUTOMATIC_TOP, layer))
                say("%s -> %s", layer.name, AUTOMATIC_TOP)
        self._check_counts(layer, node)
        self.nodes.append(node)
        return node

    @staticmethod
    def _check_counts(layer: Layer, node: Node) -> None:
        layer.bottoms.check(len(node.bottom_ids), "bottom(s)")
        layer.tops.check(len(node.top_ids), "top(s)")
        if layer.equal_bottoms_and_tops and len(node.bottom_ids) != len(node.top_ids):
            raise NetError(
                f"needs as many tops as bottoms, got {len(node.bottom_ids)} bottoms "
                f"and {len(node.top_ids)} tops",
                fix="add or remove top lines",
            )

    @staticmethod
    def _check_in_place(layer: Layer, blob: str) -> None:
        if not layer.in_place:
            raise NetError(
                f'cannot work in place: its top "{blob}" is its bottom, and its values or '
                "gradients would be wrong",
                fix="give the top a name of its own",
            )

    def _new_blob(self, name: str, layer: Layer) -> int:
        if name != AUTOMATIC_TOP and name in self._producer:
            first = self.nodes[self._producer[name]]
            raise NetError(
                f'top blob "{name}" is produced by layer "{first.layer.name}" ({first.where}) '
                f'and again by layer "{layer.name}"',
                fix="rename one, or restrict the layers to different phases with include rules",
            )
        self.blobs.append(Blob((), name))
        self.blob_names.append(name)
        return len(self.blobs) - 1
