"""MemoryData."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import F32, Array
from swcaffe.errors import DataError, ParameterError, ShapeError
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly

__all__ = ["MemoryData"]

log = logging.getLogger(__name__)


@LAYERS.register("MemoryData")
class MemoryData(Layer):
    """Batches cut, in turn and for ever, from arrays that the caller hands over with `feed`.

    top[0]  (batch_size, channels, height, width)
    top[1]  labels: (batch_size), and (batch_size, 1, 1, 1) from the first forward on, as in Caffe
    Reads memory_data_param. The arrays are kept, not copied, and not transformed.
    """

    bottoms = exactly(0)
    tops = exactly(2)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read the four sizes."""
        param = self.param.memory_data_param
        sizes = {n: getattr(param, n) for n in ("batch_size", "channels", "height", "width")}
        for name, size in sizes.items():
            if size < 1:
                raise ParameterError(f"{name} is missing or 0", fix="set it in memory_data_param")
        self.batch_size, *item = sizes.values()
        self.item = tuple(item)
        self.position = 0
        self._data: F32 | None = None
        tops[0].reshape((self.batch_size, *self.item))
        tops[1].reshape((self.batch_size,))

    def feed(self, data: F32, labels: F32) -> None:
        """Use these from the next forward on, from their first item.

        data    (n, channels, height, width) float32, n a multiple of batch_size
        labels  n values
        """
        if data.shape[1:] != self.item or not len(data):
            raise ShapeError(
                f"data has shape {data.shape}, items need {self.item}",
                fix="feed arrays of the layer's channels, height and width",
            )
        if len(data) % self.batch_size:
            raise ShapeError(
                f"{len(data)} items are no multiple of batch_size {self.batch_size}",
                fix="pad the arrays, or choose a batch_size that divides them",
            )
        if labels.size != len(data):
            raise ShapeError(
                f"{labels.size} labels for {len(data)} items", fix="give one label for each item"
            )
        if self.param.HasField("transform_param"):
            log.warning('layer "%s" (MemoryData): arrays are not transformed', self.name)
        self._data, self._labels = data, labels.reshape(-1)
        self.position = 0

    def set_batch_size(self, batch_size: int, tops: Blobs) -> None:
        """Cut batches of another size from now on; feed again afterwards."""
        if batch_size < 1:
            raise ParameterError(f"batch_size {batch_size} must be positive", fix="give 1 or more")
        self.batch_size, self._data = batch_size, None
        tops[0].reshape((batch_size, *self.item))
        tops[1].reshape((batch_size,))

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing: sizes are fixed."""

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Copy the next batch. Raises DataError before the first `feed`."""
        if self._data is None:
            raise DataError("has no data", fix="call set_input_arrays before forward")
        rows = slice(self.position, self.position + self.batch_size)
        tops[1].reshape((self.batch_size, 1, 1, 1))
        np.copyto(tops[0].data, self._data[rows])
        np.copyto(tops[1].data.reshape(-1), self._labels[rows])
        self.position = rows.stop % len(self._data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Nothing to propagate to."""

    def state(self) -> dict[str, Array]:
        """Also the place of the next batch."""
        return {**super().state(), "position": np.array(self.position, np.int64)}

    def load_state(self, state: dict[str, Array]) -> None:
        """Also the place of the next batch, in arrays fed before."""
        super().load_state(state)
        self.position = int(state.get("position", np.array(0)))
