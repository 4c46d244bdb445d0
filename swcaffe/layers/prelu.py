"""PReLU."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.errors import ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.layers._weights import WeightedLayer
from swcaffe.net.filler import constant
from swcaffe.net.layer import LAYERS, Blobs, exactly
from swcaffe.operators.layout import Concat
from swcaffe.operators.prelu import PReluBackwardData, PReluBackwardWeights, PReluForward

__all__ = ["PReLU"]


@LAYERS.register("PReLU")
class PReLU(WeightedLayer):
    """top = max(x, 0) + slope * min(x, 0), slopes learned (He et al. 2015).

    bottom[0], top[0]  (n, c, …)
    slope              (c), or a scalar if channel_shared; 0.25 if no filler is given
    Reads prelu_param.
    """

    bottoms = exactly(1)
    tops = exactly(1)
    in_place = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Make the slopes."""
        param = self.param.prelu_param
        if len(bottoms[0].shape) < 2:
            raise ShapeError(
                f"bottom {bottoms[0]!r} must have at least 2 axes, (n, c, …)", fix="feed (n, c, …)"
            )
        self.shared: bool = param.channel_shared
        filler = param.filler if param.HasField("filler") else constant(0.25)
        self.make_blobs([() if self.shared else (bottoms[0].shape[1],)], [filler])

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape."""
        bottom = bottoms[0]
        if self.shared:
            view = (1, 1, bottom.count)
        else:
            view = (bottom.shape[0], self.blobs[0].count, bottom.size(2))
            if bottom.shape[1:2] != self.blobs[0].shape:
                raise ShapeError(
                    f"bottom {bottom!r} must have {view[1]} channels on axis 1",
                    fix="keep the number of channels",
                )
        tops[0].reshape(bottom.shape)
        self._forward = self.engine.plan(PReluForward(*view))
        self._to_data = Deferred(self.engine, PReluBackwardData(*view))
        self._to_slope = Deferred(self.engine, PReluBackwardWeights(*view))
        self._kept: F32 | None = None
        if tops[0] is bottom:
            self._kept = aligned_zeros(bottom.shape)
            self._keep = self.engine.plan(Concat(1, (bottom.count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Rectify; in place, keep x for the gradients."""
        if self._kept is not None:
            self._keep(bottoms[0].data, self._kept)
        self._forward(bottoms[0].data, self.blobs[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Slopes before the data, whose gradient may take the top's place."""
        x = bottoms[0].data if self._kept is None else self._kept
        if self.learns(0):
            self._to_slope(x, tops[0].diff, self.blobs[0].diff)
        if propagate_down[0]:
            self._to_data(x, self.blobs[0].data, tops[0].diff, bottoms[0].diff)
