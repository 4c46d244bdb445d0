"""Split."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least, exactly
from swcaffe.operators.eltwise import EltwiseSum

__all__ = ["Split"]


@LAYERS.register("Split")
class Split(Layer):
    """One blob for several readers: tops share the bottom's values, gradients are summed."""

    bottoms = exactly(1)
    tops = at_least(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """No parameters."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Tops take the bottom's shape and values' memory."""
        for top in tops:
            top.reshape(bottoms[0].shape)
            top.share_data(bottoms[0])
        ones = (1.0,) * len(tops)
        self._sum = Deferred(self.engine, EltwiseSum(bottoms[0].count, ones))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing to move, unless the bottom has got other memory since."""
        for top in tops:
            if not top.shares_data_with(bottoms[0]):
                top.share_data(bottoms[0])

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Sum the tops' gradients."""
        if propagate_down[0]:
            self._sum(*(top.diff for top in tops), bottoms[0].diff)
