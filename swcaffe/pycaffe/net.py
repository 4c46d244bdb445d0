"""`caffe.Net`: a net with pycaffe's attributes and calls."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

import swcaffe.layers  # noqa: F401  registers the layer types
from swcaffe.arrays import F32
from swcaffe.errors import NetError, ShapeError, UsageError, unknown_name
from swcaffe.net.layer import Layer, Phase
from swcaffe.net.net import BuildOptions
from swcaffe.net.net import Net as BuiltNet
from swcaffe.net.weights import load_weights, save_weights, share_weights
from swcaffe.pycaffe.blob import PyBlob
from swcaffe.pycaffe.mode import current_engine, current_seed

__all__ = ["Net", "PyLayer"]


class PyLayer:
    """A layer as pycaffe shows it: its type and its parameter blobs."""

    def __init__(self, layer: Layer) -> None:
        """Wrap a layer."""
        self.type = layer.type
        self.blobs = [PyBlob(blob) for blob in layer.blobs]


class Net:
    """A net from a prototxt file.

    blobs    OrderedDict name -> blob, in order of making, split blobs included
    params   OrderedDict layer name -> list of blobs, for layers that have any
    inputs, outputs   blob names; outputs in byte order
    """

    def __init__(
        self,
        network_file: str | Path,
        *args: object,
        phase: int | None = None,
        level: int = 0,
        stages: Sequence[str] | None = None,
        weights: str | Path | None = None,
    ) -> None:
        """`Net(file, phase, weights=…)`, or the old `Net(file, weights, phase)`."""
        for arg in args:
            if isinstance(arg, int):
                phase = arg
            elif isinstance(arg, str | Path):
                weights = arg
            else:
                raise UsageError(
                    f"Net() takes a file, a phase and weights, got {arg!r}",
                    fix="Net(file, caffe.TEST, weights=file)",
                )
        if phase is None:
            raise UsageError("Net() needs a phase", fix="Net(file, caffe.TEST)")
        if phase not in list(Phase):
            raise UsageError(f"there is no phase {phase}", fix="use caffe.TRAIN or caffe.TEST")
        options = BuildOptions(current_engine(), seed=current_seed())
        built = BuiltNet.from_file(
            network_file, Phase(phase), options, level=level, stages=stages or ()
        )
        self._adopt(built)
        if weights is not None:
            self.copy_from(weights)

    @classmethod
    def of(cls, built: BuiltNet) -> Net:
        """The pycaffe view of a net that a solver built."""
        view = cls.__new__(cls)
        view._adopt(built)
        return view

    def _adopt(self, built: BuiltNet) -> None:
        self._net = built
        names = built.blob_names
        self.blobs = OrderedDict((n, PyBlob(b)) for n, b in zip(names, built.blobs, strict=True))
        self.blob_loss_weights = OrderedDict(zip(names, built.blob_loss_weights(), strict=True))
        self.layers = [PyLayer(layer) for layer in built.layers]
        self.layer_dict = OrderedDict(
            (layer.name, view) for layer, view in zip(built.layers, self.layers, strict=True)
        )
        self.params = OrderedDict(
            (name, view.blobs) for name, view in self.layer_dict.items() if view.blobs
        )
        self.inputs = [names[i] for i in built.inputs]
        self.outputs = [names[i] for i in built.outputs]
        self._layer_names = [layer.name for layer in built.layers]
        self.bottom_names = OrderedDict(
            (node.layer.name, [names[i] for i in node.bottom_ids]) for node in built.nodes
        )
        self.top_names = OrderedDict(
            (node.layer.name, [names[i] for i in node.top_ids]) for node in built.nodes
        )

    @property
    def name(self) -> str:
        """The net's name."""
        return self._net.name

    # -- running ----------------------------------------------------------------------------------

    def _index(self, layer: str | None, default: int) -> int:
        if layer is None:
            return default
        if layer not in self._layer_names:
            raise NetError(unknown_name("layer", layer, self._layer_names), fix="give one of these")
        return self._layer_names.index(layer)

    def _fill(self, given: dict[str, ArrayLike], names: list[str], part: str) -> None:
        if set(given) != set(names):
            what = "Input blob" if part == "data" else "Top diff"
            whom = "net inputs" if part == "data" else "net outputs"
            raise UsageError(
                f"{what} arguments do not match {whom}: got {sorted(given)}, need {sorted(names)}",
                fix="pass each of these once",
            )
        for name, value in given.items():
            target: F32 = getattr(self.blobs[name], part)
            array = np.asarray(value)
            if target.ndim and (array.ndim == 0 or array.shape[0] != target.shape[0]):
                what = "Input" if part == "data" else "Diff"
                raise ShapeError(
                    f"{what} is not batch sized: {name} is {array.shape}, the blob {target.shape}",
                    fix=f"net.blobs[{name!r}].reshape(…) first",
                )
            target[...] = array

    def forward(
        self,
        blobs: Sequence[str] | None = None,
        start: str | None = None,
        end: str | None = None,
        **kwargs: ArrayLike,
    ) -> dict[str, F32]:
        """Run forward from layer `start` to layer `end`, both included.

        Keyword arguments are the values of all inputs. Returns the outputs (or the tops of `end`)
        and the named `blobs`, as views.
        """
        last = len(self._layer_names) - 1
        self._index(end, last)
        wanted = set(self.outputs if end is None else self.top_names[end])
        if kwargs:
            self._fill(kwargs, self.inputs, "data")
        self._net.forward(self._index(start, 0), self._index(end, last))
        return {name: self.blobs[name].data for name in wanted | set(blobs or ())}

    def backward(
        self,
        diffs: Sequence[str] | None = None,
        start: str | None = None,
        end: str | None = None,
        **kwargs: ArrayLike,
    ) -> dict[str, F32]:
        """Run backward from layer `start` down to layer `end`, both included.

        Keyword arguments are the gradients of all outputs. Returns the gradients of the inputs (or
        the bottoms of `end`) and of the named `diffs`, as views.
        """
        last = len(self._layer_names) - 1
        self._index(end, 0)
        wanted = set(self.inputs if end is None else self.bottom_names[end])
        if kwargs:
            self._fill(kwargs, self.outputs, "diff")
        self._net.backward(self._index(start, last), self._index(end, 0))
        return {name: self.blobs[name].diff for name in wanted | set(diffs or ())}

    def _forward(self, start: int, end: int) -> float:
        """Run layers by index; the loss."""
        return self._net.forward(start, end)

    def _backward(self, start: int, end: int) -> None:
        """Run layers backward by index."""
        self._net.backward(start, end)

    def reshape(self) -> None:
        """Propagate changed input shapes now rather than at the next forward pass."""
        self._net.reshape()

    def clear_param_diffs(self) -> None:
        """Zero the gradients of all parameters."""
        self._net.clear_param_diffs()

    def before_forward(self, call: Callable[[int], None]) -> None:
        """Call with the layer's index before each layer runs forward."""
        self._net.before_forward.append(call)

    def after_forward(self, call: Callable[[int], None]) -> None:
        """Call with the layer's index after each layer has run forward."""
        self._net.after_forward.append(call)

    def before_backward(self, call: Callable[[int], None]) -> None:
        """Call with the layer's index before each layer runs backward."""
        self._net.before_backward.append(call)

    def after_backward(self, call: Callable[[int], None]) -> None:
        """Call with the layer's index after each layer has run backward."""
        self._net.after_backward.append(call)

    # -- weights ----------------------------------------------------------------------------------

    def copy_from(self, path: str | Path) -> None:
        """Copy weights by layer name from a caffemodel or HDF5 file."""
        load_weights(self._net, path)

    def load_hdf5(self, path: str | Path) -> None:
        """The same: the kind of a file is told by its content."""
        load_weights(self._net, path)

    def save(self, path: str | Path) -> None:
        """Write a binary caffemodel (HDF5 if the name ends in `.h5`)."""
        save_weights(self._net, path)

    def save_hdf5(self, path: str | Path) -> None:
        """Write weights as HDF5."""
        save_weights(self._net, path, hdf5=True)

    def share_with(self, other: Net) -> None:
        """Use the weights of another net (its memory), matched by layer name."""
        share_weights(self._net, other._net)
