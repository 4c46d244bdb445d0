"""Softmax."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators.layout import Concat
from swcaffe.operators.softmax import SoftmaxBackward, SoftmaxForward

__all__ = ["Softmax"]


@LAYERS.register("Softmax")
class Softmax(Layer):
    """top = e^x / sum of e^x along softmax_param.axis, of the bottom's shape."""

    bottoms = exactly(1)
    tops = exactly(1)
    in_place = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing: the axis is looked up with each shape."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape."""
        bottom = bottoms[0]
        axis = bottom.axis(self.param.softmax_param.axis)
        tops[0].reshape(bottom.shape)
        view = (bottom.size(0, axis), bottom.shape[axis], bottom.size(axis + 1))
        self._forward = self.engine.plan(SoftmaxForward(*view))
        self._backward = Deferred(self.engine, SoftmaxBackward(*view))
        self._kept: F32 | None = None
        if self.context.overwriters:
            self._kept = aligned_zeros(bottom.shape)
            self._keep = self.engine.plan(Concat(1, (bottom.count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Probabilities; keep them if they will be overwritten."""
        self._forward(bottoms[0].data, tops[0].data)
        if self._kept is not None:
            self._keep(tops[0].data, self._kept)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """From the probabilities and their gradient."""
        if propagate_down[0]:
            y = tops[0].data if self._kept is None else self._kept
            self._backward(y, tops[0].diff, bottoms[0].diff)
