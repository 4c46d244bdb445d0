"""Tile."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.errors import ParameterError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators.reduction import ReduceBackward, ReduceForward

__all__ = ["Tile"]


@LAYERS.register("Tile")
class Tile(Layer):
    """The bottom repeated along `axis`, `tiles` times. Reads tile_param."""

    bottoms = exactly(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read tile_param."""
        self.tiles: int = self.param.tile_param.tiles
        if self.tiles < 1:
            raise ParameterError(
                f"tiles is {self.tiles} or missing", fix="set tiles in tile_param, 1 or more"
            )

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top is `tiles` times as long along the axis."""
        bottom = bottoms[0]
        axis = bottom.axis(self.param.tile_param.axis)
        long = bottom.shape[axis] * self.tiles
        tops[0].reshape((*bottom.shape[:axis], long, *bottom.shape[axis + 1 :]))
        outer, inner = bottom.size(0, axis), bottom.size(axis)
        # to repeat is the gradient of a sum
        self._forward = self.engine.plan(ReduceBackward("sum", outer, self.tiles, inner))
        self._backward = Deferred(self.engine, ReduceForward("sum", outer, self.tiles, inner))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Repeat."""
        self._forward(bottoms[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Sum the copies' gradients."""
        if propagate_down[0]:
            self._backward(tops[0].diff, bottoms[0].diff)
