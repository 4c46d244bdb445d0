"""Base of layers that own weights: making, filling, and asking whether they learn."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import Shape
from swcaffe.errors import WeightsError
from swcaffe.net.blob import Blob
from swcaffe.net.filler import fill
from swcaffe.net.layer import Layer
from swcaffe.proto.binary import blob_to_array
from swcaffe.proto.messages import Message

__all__ = ["WeightedLayer"]


class WeightedLayer(Layer):
    """A layer with parameter blobs."""

    def make_blobs(self, shapes: Sequence[Shape], fillers: Sequence[Message]) -> None:
        """Blobs of `shapes`: the values stored in the prototxt, or else filled.

        Blob i draws from the stream "filler/i", so that no blob's values depend on another's.
        Raises WeightsError if stored values do not fit, ParameterError from the filler.
        """
        self.blobs = [Blob(shape, f"{self.name}/{i}") for i, shape in enumerate(shapes)]
        stored = self.param.blobs
        if stored and len(stored) != len(shapes):
            raise WeightsError(
                f"{len(stored)} stored blobs for {len(shapes)} parameters",
                fix="store weights and bias as the layer has them, or none",
            )
        for i, (blob, filler) in enumerate(zip(self.blobs, fillers, strict=True)):
            if not stored:
                fill(filler, blob.data, self.rng(f"filler/{i}"))
                continue
            values = blob_to_array(stored[i])
            if values.size != blob.count:
                raise WeightsError(
                    f"stored blob {i} has shape {values.shape}, the layer needs {blob.shape}",
                    fix="store blobs of the layer's shape, or none",
                )
            blob.data[...] = values.reshape(blob.shape)

    def learns(self, index: int) -> bool:
        """Whether the gradient of blob `index` is wanted; if nobody said, yes."""
        flags = self.param_propagate_down
        return index >= len(flags) or flags[index]
