"""Net: a definition, filtered, split and built; it runs forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from swcaffe.arrays import Array
from swcaffe.engine.engine import Engine
from swcaffe.errors import NetError, locate, unknown_name
from swcaffe.log import number
from swcaffe.net.backward import LayerFacts, backward_needs
from swcaffe.net.blob import Blob
from swcaffe.net.debug_info import debug_backward, debug_forward, debug_params
from swcaffe.net.definition import Definition, read_definition
from swcaffe.net.filters import filter_net
from swcaffe.net.layer import LAYERS, ItemError, Layer, LayerContext, Phase
from swcaffe.net.params import Param, collect_params, spec_of
from swcaffe.net.splits import insert_splits
from swcaffe.net.wiring import Node, Wiring, overwriters, say
from swcaffe.proto import messages
from swcaffe.proto.messages import Message
from swcaffe.proto.prototxt import write

__all__ = ["BuildOptions", "Memory", "Net", "Node"]


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What a net is built with, beside its definition: see LayerContext."""

    engine: Engine
    seed: int = 0
    rank: int = 0
    size: int = 1
    bad_records: str = "error"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a net by what they hold.

    listed       Caffe's figure: every top of every layer, shared or not
    activations  memory of values, shared memory once      gradients  likewise, where backward runs
    parameters   values of learnable parameters; their gradients need as much again
    """

    listed: int
    activations: int
    gradients: int
    parameters: int

    def __str__(self) -> str:
        """One line in MiB."""
        parts = (self.activations, self.gradients, self.parameters, self.parameters)
        a, g, p, d = (f"{part / 2**20:.1f}" for part in parts)
        total = f"{sum(parts) / 2**20:.1f}"
        return (
            f"Memory in MiB: activations {a}, their gradients {g}, parameters {p}, "
            f"their gradients {d}; together {total}"
        )


class Net:
    """A runnable net.

    nodes      layers in order, Split layers included
    blobs      every blob in order of making; `blob_names` beside it
    params     every parameter; `learnable_params` only the owners, once each
    inputs, outputs   blob indices: tops of Input layers in order; unread blobs by name
    """

    def __init__(self, definition: Definition, options: BuildOptions) -> None:
        """Filter, split, build. Raises NetError, ParameterError, ShapeError, DataError."""
        self.options = options
        self.definition = insert_splits(filter_net(definition))
        self.name = definition.name
        self.phase = definition.phase
        self._wiring = wiring = Wiring()
        self.nodes, self.blobs = wiring.nodes, wiring.blobs
        self.blob_names, self.inputs = wiring.blob_names, wiring.inputs
        self.before_forward: list[Callable[[int], None]] = []
        self.after_forward: list[Callable[[int], None]] = []
        self.before_backward: list[Callable[[int], None]] = []
        self.after_backward: list[Callable[[int], None]] = []
        self.debug_info = definition.debug_info
        self._overwriters = overwriters(self.definition.layers)
        say(
            "Initializing net from parameters: \n%s",
            write(
                messages.NetParameter(
                    name=self.name, state=definition.state, layer=self.definition.layers
                )
            ),
        )
        try:
            for layer, where in zip(self.definition.layers, self.definition.where, strict=True):
                self._append(layer, where)
            self._wire_backward(definition.force_backward)
            self.params: list[Param] = collect_params(self.layers)
        except BaseException:
            self.close()
            raise
        self.learnable_params = [p for p in self.params if p.is_owner]
        self.outputs = wiring.outputs()
        for i in self.outputs:
            say("This network produces output %s", self.blob_names[i])
        self._report_sharing()
        memory = self.memory()
        say("Memory required for data: %d", memory.listed)
        say("%s", memory)
        say("Network initialization done.")

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        phase: Phase,
        options: BuildOptions,
        *,
        level: int = 0,
        stages: Sequence[str] = (),
        lenient: bool = False,
    ) -> Net:
        """The net of a prototxt file in a phase."""
        definition = read_definition(path, phase, level=level, stages=stages, lenient=lenient)
        return cls(definition, options)

    # -- building ---------------------------------------------------------------------------------

    def _append(self, definition: Message, where: str) -> None:
        param = messages.LayerParameter()
        param.CopyFrom(definition)
        if not param.HasField("phase"):
            param.phase = int(self.phase)
        say("Creating Layer %s", param.name)
        with locate(where, f'layer "{param.name}"'):
            layer_class = LAYERS.get(param.type)
        context = LayerContext(
            engine=self.options.engine,
            phase=Phase(param.phase),
            seed=self.options.seed,
            rank=self.options.rank,
            size=self.options.size,
            index=len(self.nodes),
            bad_records=self.options.bad_records,
            overwriters=self._overwriters[len(self.nodes)],
        )
        layer = layer_class(param, context)
        with locate(where, layer.title):
            node = self._wiring.connect(layer, where)
            bottoms, tops = self.bottoms(node), self.tops(node)
            layer.setup(bottoms, tops)
            self._check_name(node)
            self._reshape(node)
            self._set_loss_weights(node)
        say("Setting up %s", layer.name)
        for i, blob in enumerate(tops):
            say("Top shape: %s", blob.shape_text())
            if node.loss_weights[i]:
                say("    with loss weight %s", number(node.loss_weights[i]))

    def _check_name(self, node: Node) -> None:
        """Layers that learn need names of their own: weights and random draws go by them."""
        for other in self.nodes:
            same = other is not node and other.layer.name == node.layer.name
            if same and other.layer.blobs and node.layer.blobs:
                raise NetError(
                    f"{other.layer.title} at {other.where} has this name too, and both have "
                    "weights, which are saved and found by name",
                    fix="rename one; to share weights, give their params one name",
                )

    def _set_loss_weights(self, node: Node) -> None:
        layer, tops = node.layer, self.tops(node)
        given = layer.param.loss_weight
        if not given and layer.is_loss:
            given.extend([1.0] + [0.0] * (len(tops) - 1))
        if given and len(given) != len(tops):
            raise NetError(
                f"{len(given)} loss_weight values for {len(tops)} tops", fix="give one per top"
            )
        node.loss_weights = list(given) or [0.0] * len(tops)
        self._fill_loss_diffs(node)

    def _fill_loss_diffs(self, node: Node) -> None:
        for blob, weight in zip(self.tops(node), node.loss_weights, strict=False):
            if weight:
                blob.diff.fill(weight)

    def _wire_backward(self, force: bool) -> None:
        facts = [self._facts(node, param) for node, param in self._originals()]
        for node, need in zip(self.nodes, backward_needs(facts, force), strict=True):
            node.needs_backward, node.propagate_down = need.layer, need.bottoms
            layer = node.layer
            layer.param_propagate_down = [
                force or spec_of(layer.param, i).lr_mult != 0 for i in range(len(layer.blobs))
            ]
            does = "needs" if need.layer else "does not need"
            say("%s %s backward computation.", layer.name, does)

    def _originals(self) -> list[tuple[Node, Message]]:
        """Nodes with their prototxt's parameters: Caffe asks those, not what setup added."""
        return list(zip(self.nodes, self.definition.layers, strict=True))

    def _facts(self, node: Node, param: Message) -> LayerFacts:
        return LayerFacts(
            bottoms=tuple(self.blob_names[i] for i in node.bottom_ids),
            tops=tuple(self.blob_names[i] for i in node.top_ids),
            learns=any(spec_of(param, i).lr_mult for i in range(len(node.layer.blobs))),
            propagate_down=tuple(param.propagate_down),
            loss_weights=tuple(node.loss_weights),
            can_force=tuple(
                node.layer.allow_force_backward(i) for i in range(len(node.bottom_ids))
            ),
        )

    def _report_sharing(self) -> None:
        for p in self.params:
            if not p.is_owner:
                owner = p.owner
                say(
                    "Sharing parameters '%s' owned by layer '%s', param index %d",
                    p.name,
                    owner.layer.name,
                    owner.index,
                )

    # -- looking ----------------------------------------------------------------------------------

    @property
    def layers(self) -> list[Layer]:
        """Layers in order."""
        return [node.layer for node in self.nodes]

    def bottoms(self, node: Node) -> list[Blob]:
        """Blobs a node reads."""
        return [self.blobs[i] for i in node.bottom_ids]

    def tops(self, node: Node) -> list[Blob]:
        """Blobs a node makes."""
        return [self.blobs[i] for i in node.top_ids]

    def blob(self, name: str) -> Blob:
        """The last blob called `name`; raises NetError with near spellings."""
        for index in range(len(self.blobs) - 1, -1, -1):
            if self.blob_names[index] == name:
                return self.blobs[index]
        raise NetError(unknown_name("blob", name, self.blob_names), fix="give one of these")

    def blob_loss_weights(self) -> list[float]:
        """Loss weight of each blob."""
        weights = [0.0] * len(self.blobs)
        for node in self.nodes:
            for i, w in zip(node.top_ids, node.loss_weights, strict=True):
                weights[i] = w
        return weights

    def memory(self) -> Memory:
        """What this net will hold, known before any activation is allocated."""
        values, gradients = {}, {}
        for node in self.nodes:
            for blob in self.tops(node):
                value, gradient = blob.memory
                values[value] = blob.count
                if node.needs_backward:
                    gradients[gradient] = blob.count
        return Memory(
            listed=4 * sum(blob.count for node in self.nodes for blob in self.tops(node)),
            activations=4 * sum(values.values()),
            gradients=4 * sum(gradients.values()),
            parameters=4 * sum(p.blob.count for p in self.learnable_params),
        )

    # -- running ----------------------------------------------------------------------------------

    def _reshape(self, node: Node) -> None:
        bottoms, tops = self.bottoms(node), self.tops(node)
        before = [top.shape for top in tops]
        node.layer.reshape(bottoms, tops)
        node.bottom_shapes = tuple(b.shape for b in bottoms)
        if [top.shape for top in tops] != before:
            self._fill_loss_diffs(node)

    def reshape(self) -> None:
        """Propagate the inputs' shapes through all layers."""
        for node in self.nodes:
            with locate(node.where, node.layer.title):
                self._reshape(node)

    def forward(self, start: int = 0, end: int | None = None) -> float:
        """Run layers `start` … `end` (inclusive, last by default); the sum of their losses."""
        loss = 0.0
        last = len(self.nodes) - 1 if end is None else end
        for i in range(start, last + 1):
            for call in self.before_forward:
                call(i)
            loss += self.forward_node(i)
            for call in self.after_forward:
                call(i)
        return loss

    def forward_node(self, index: int) -> float:
        """Run one layer; its weighted loss."""
        node = self.nodes[index]
        bottoms, tops = self.bottoms(node), self.tops(node)
        with locate(node.where, node.layer.title):
            if tuple(b.shape for b in bottoms) != node.bottom_shapes:
                self._reshape(node)
            try:
                node.layer.forward(bottoms, tops)
            except ItemError as error:
                error.message += self._records_of(error.item)
                raise
        loss = 0.0
        for top, weight in zip(tops, node.loss_weights, strict=True):
            if weight:
                loss += float(np.dot(top.data.reshape(-1), top.diff.reshape(-1)))
        if self.debug_info:
            debug_forward(self, node)
        return loss

    def _records_of(self, item: int) -> str:
        """Which records an item of the batch was made from, as far as data layers know."""
        makers = [layer for layer in self.layers if item < len(layer.records)]
        names = (f'"{layer.records[item]}" of layer "{layer.name}"' for layer in makers)
        return f" (record {' or '.join(names)})" if makers else ""

    def backward(self, start: int | None = None, end: int = 0) -> None:
        """Run backward from layer `start` (last by default) down to `end`."""
        first = len(self.nodes) - 1 if start is None else start
        for i in range(first, end - 1, -1):
            for call in self.before_backward:
                call(i)
            if self.nodes[i].needs_backward:
                self.backward_node(i)
            for call in self.after_backward:
                call(i)
        if self.debug_info:
            debug_params(self)

    def backward_node(self, index: int) -> None:
        """Run one layer backward, whether the loss needs it or not."""
        node = self.nodes[index]
        with locate(node.where, node.layer.title):
            node.layer.backward(self.tops(node), node.propagate_down, self.bottoms(node))
        if self.debug_info:
            debug_backward(self, node)

    def clear_param_diffs(self) -> None:
        """Zero the gradients of all learnable parameters."""
        for param in self.learnable_params:
            param.blob.diff.fill(0)

    def log_summaries(self) -> None:
        """Log what layers have to say after a run: records read and left out, time waited."""
        for layer in self.layers:
            if text := layer.summary():
                say("%s: %s", layer.title, text)

    def close(self) -> None:
        """Stop reader threads and release files."""
        for node in self.nodes:
            node.layer.close()

    # -- state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Everything beside weights that an exact resume needs: "layer/key" -> array."""
        return {
            f"{layer.name}/{key}": value
            for layer in self.layers
            for key, value in layer.state().items()
        }

    def reseed(self, seed: int) -> None:
        """Draw from another seed from now on; follow with `load_state`, which readers heed."""
        for layer in self.layers:
            layer.context = replace(layer.context, seed=seed)

    def load_state(self, state: dict[str, Array], *, data: bool = True) -> None:
        """Continue from `state`; layers it does not name start afresh.

        data=False leaves readers (layers without bottoms) at their start.
        """
        for node in self.nodes:
            prefix = f"{node.layer.name}/"
            own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            if own and (data or node.bottom_ids):
                node.layer.load_state(own)
