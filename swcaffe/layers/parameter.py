"""Parameter."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.layers._plans import Deferred
from swcaffe.layers._weights import WeightedLayer
from swcaffe.net.filler import constant
from swcaffe.net.layer import LAYERS, Blobs, exactly
from swcaffe.operators.eltwise import EltwiseSum
from swcaffe.operators.layout import Concat

__all__ = ["Parameter"]


@LAYERS.register("Parameter")
class Parameter(WeightedLayer):
    """A blob that learns, as a top. Reads parameter_param: shape. Starts at 0.

    The top is a copy, so that layers may work in place on it; gradients add up in the blob over
    several backward passes, as those of all weights.
    """

    bottoms = exactly(0)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Make the blob."""
        self.make_blobs([tuple(self.param.parameter_param.shape.dim)], [constant(0)])

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the blob's shape."""
        blob = self.blobs[0]
        tops[0].reshape(blob.shape)
        self._copy = self.engine.plan(Concat(1, (blob.count,)))
        self._add = Deferred(self.engine, EltwiseSum(blob.count, (1.0, 1.0)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Copy."""
        self._copy(self.blobs[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Add to the blob's gradient."""
        if self.learns(0):
            diff = self.blobs[0].diff
            self._add(diff, tops[0].diff, diff)
