"""Bias."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.layers._broadcast import broadcast_view, parameter_shape
from swcaffe.layers._plans import Deferred
from swcaffe.layers._weights import WeightedLayer
from swcaffe.net.layer import LAYERS, Blobs, between, exactly
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.layout import Concat

__all__ = ["Bias"]


@LAYERS.register("Bias")
class Bias(WeightedLayer):
    """top = x + bias, where the bias covers some axes of x.

    bottom[0], top[0]  any shape
    bottom[1]          the bias, if it is not learned: axes of bottom[0] from `axis` on
    blobs              bias (unless bottom[1])
    Reads bias_param.
    """

    bottoms = between(1, 2)
    tops = exactly(1)
    in_place = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Make the bias."""
        param = self.param.bias_param
        self.learned = len(bottoms) == 1
        if self.learned:
            shape = parameter_shape(bottoms[0], param.axis, param.num_axes)
            self.make_blobs([shape], [param.filler])

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape."""
        bottom = bottoms[0]
        shape = self.blobs[0].shape if self.learned else bottoms[1].shape
        view = broadcast_view(bottom, self.param.bias_param.axis, shape)
        tops[0].reshape(bottom.shape)
        forward = AffineForward(*view, has_scale=False, has_bias=True)
        self._forward = self.engine.plan(forward)
        to_bias = AffineBackwardWeights(
            *view, has_scale=False, has_bias=True, accumulate=self.learned
        )
        self._to_bias = Deferred(self.engine, to_bias)
        self._copy = Deferred(self.engine, Concat(1, (bottom.count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Add."""
        bias = self.blobs[0] if self.learned else bottoms[1]
        self._forward(bottoms[0].data, bias.data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Sum for the bias, copy for the data."""
        diff = tops[0].diff
        if self.learned and self.learns(0):
            self._to_bias(diff, self.blobs[0].diff)
        if not self.learned and propagate_down[1]:
            self._to_bias(diff, bottoms[1].diff)
        if propagate_down[0] and tops[0] is not bottoms[0]:
            self._copy(diff, bottoms[0].diff)
