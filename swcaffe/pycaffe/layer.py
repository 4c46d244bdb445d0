"""`caffe.Layer`: the base of layers written in Python, for prototxt's type `Python`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from swcaffe.net.blob import Blob
from swcaffe.net.layer import Blobs
from swcaffe.net.layer import Layer as NetLayer
from swcaffe.proto.messages import Message
from swcaffe.pycaffe.blob import PyBlob

__all__ = ["BlobVec", "Layer"]


class BlobVec(Sequence[PyBlob]):
    """A layer's weights; grows by `add_blob`."""

    def __init__(self, layer: NetLayer) -> None:
        """Show the weights of `layer`, those that it will get as well."""
        self._layer = layer

    def __len__(self) -> int:
        """Number of weights."""
        return len(self._layer.blobs)

    @overload
    def __getitem__(self, index: int) -> PyBlob: ...

    @overload
    def __getitem__(self, index: slice) -> list[PyBlob]: ...

    def __getitem__(self, index: int | slice) -> PyBlob | list[PyBlob]:
        """Weights by number."""
        if isinstance(index, slice):
            return [PyBlob(blob) for blob in self._layer.blobs[index]]
        return PyBlob(self._layer.blobs[index])

    def add_blob(self, *shape: int) -> None:
        """Add a weight of zeros, which is then learned, saved, loaded and shared like others."""
        blobs = self._layer.blobs
        blobs.append(Blob(shape, f"{self._layer.name}/{len(blobs)}"))


class Layer:
    """Derive from it, write the four methods, and name module and class in python_param.

    param_str  python_param's, for the layer to read as it likes
    phase      swcaffe.TRAIN or swcaffe.TEST
    blobs      weights; in setup `self.blobs.add_blob(2, 3)`, in backward add to their diff
    """

    param_str: str
    phase: int
    blobs: BlobVec

    def __init__(self, param: Message) -> None:
        """Made by the net, with the LayerParameter."""

    def attach(self, layer: NetLayer) -> None:
        """Called by the net before `setup`."""
        self.param_str = layer.param.python_param.param_str
        self.phase = int(layer.phase)
        self.blobs = BlobVec(layer)

    def views(self, blobs: Blobs) -> list[PyBlob]:
        """Blobs as the four methods see them."""
        return [PyBlob(blob) for blob in blobs]

    def setup(self, bottom: Sequence[PyBlob], top: Sequence[PyBlob]) -> None:
        """Read param_str, check the numbers of blobs, add weights; once."""

    def reshape(self, bottom: Sequence[PyBlob], top: Sequence[PyBlob]) -> None:
        """Shape the tops: `top[0].reshape(*bottom[0].shape)`; before every `forward`."""

    def forward(self, bottom: Sequence[PyBlob], top: Sequence[PyBlob]) -> None:
        """Fill `top[0].data[...]`."""

    def backward(
        self, top: Sequence[PyBlob], propagate_down: list[bool], bottom: Sequence[PyBlob]
    ) -> None:
        """Where propagate_down is set, fill `bottom[i].diff[...]` from `top[i].diff`."""
