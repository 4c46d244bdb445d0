"""Reduction."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators.reduction import ReduceBackward, ReduceForward, ReduceKind
from swcaffe.proto import messages

__all__ = ["Reduction"]

KINDS: dict[int, ReduceKind] = {
    messages.ReductionParameter.SUM: "sum",
    messages.ReductionParameter.MEAN: "sum",
    messages.ReductionParameter.ASUM: "asum",
    messages.ReductionParameter.SUMSQ: "sumsq",
}


@LAYERS.register("Reduction")
class Reduction(Layer):
    """top = coeff * sum, mean, sum of absolute values or of squares over all axes from `axis` on.

    top[0]  the axes before `axis`; a scalar for axis 0
    Reads reduction_param: operation, axis, coeff.
    """

    bottoms = exactly(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read reduction_param."""
        self._kind = KINDS[self.param.reduction_param.operation]

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Drop the axes that are summed."""
        param, bottom = self.param.reduction_param, bottoms[0]
        axis = bottom.axis(param.axis)
        tops[0].reshape(bottom.shape[:axis])
        outer, width = bottom.size(0, axis), bottom.size(axis)
        is_mean = param.operation == messages.ReductionParameter.MEAN
        factor = param.coeff / max(width, 1) if is_mean else param.coeff
        what = (self._kind, outer, width, 1, factor)
        self._forward = self.engine.plan(ReduceForward(*what))
        self._backward = Deferred(self.engine, ReduceBackward(*what))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Sum."""
        self._forward(bottoms[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Spread each gradient over what was summed."""
        if not propagate_down[0]:
            return
        sources = () if self._kind == "sum" else (bottoms[0].data,)
        self._backward(*sources, tops[0].diff, bottoms[0].diff)
