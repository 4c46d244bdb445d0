"""LRN."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import aligned_zeros
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators.lrn import LrnBackward, LrnForward, LrnGeometry
from swcaffe.proto import messages

__all__ = ["LRN"]


@LAYERS.register("LRN")
class LRN(Layer):
    """Local response normalisation (Krizhevsky et al. 2012, section 3.3).

    bottom[0], top[0]  (n, c, h, w);  top = x / (k + alpha / m * sum of m squares)^beta over
    local_size channels, or local_size x local_size pixels (WITHIN_CHANNEL, where k is always 1).
    Reads lrn_param. The gradient reads the bottom and the scale, so a later layer may work in place
    on the top; LRN itself may not.
    """

    bottoms = exactly(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read lrn_param."""
        param = self.param.lrn_param
        if param.local_size % 2 == 0:
            raise ParameterError(
                f"local_size {param.local_size} must be odd", fix="use an odd number"
            )
        self.within = param.norm_region == messages.LRNParameter.WITHIN_CHANNEL

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape, and so has the scale."""
        shape, param = bottoms[0].shape, self.param.lrn_param
        if len(shape) != 4:
            raise ShapeError(
                f"bottom {bottoms[0]!r} must have 4 axes, (n, c, h, w)", fix="feed (n, c, h, w)"
            )
        tops[0].reshape(shape)
        n, c, h, w = shape
        geometry = LrnGeometry(
            n=n,
            c=c,
            h=h,
            w=w,
            size=param.local_size,
            alpha=param.alpha,
            beta=param.beta,
            k=1.0 if self.within else param.k,
            region="within" if self.within else "across",
        )
        self._scale = aligned_zeros(shape)
        self._forward = self.engine.plan(LrnForward(geometry))
        self._backward = Deferred(self.engine, LrnBackward(geometry))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Normalise, keep the scale."""
        self._forward(bottoms[0].data, tops[0].data, self._scale)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Through the element itself and through the scales of its neighbours."""
        if propagate_down[0]:
            self._backward(bottoms[0].data, self._scale, tops[0].diff, bottoms[0].diff)
