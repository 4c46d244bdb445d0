"""Silence."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least, exactly

__all__ = ["Silence"]


@LAYERS.register("Silence")
class Silence(Layer):
    """Reads blobs that nothing else reads, so that they are no outputs of the net."""

    bottoms = at_least(1)
    tops = exactly(0)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """No parameters."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """No tops."""

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing."""

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Zeros."""
        for bottom, wanted in zip(bottoms, propagate_down, strict=True):
            if wanted:
                bottom.diff.fill(0)
