"""Scale."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.layers._broadcast import broadcast_view, parameter_shape
from swcaffe.layers._plans import Deferred
from swcaffe.layers._weights import WeightedLayer
from swcaffe.net.filler import constant
from swcaffe.net.layer import LAYERS, Blobs, between, exactly
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.layout import Concat

__all__ = ["Scale"]


@LAYERS.register("Scale")
class Scale(WeightedLayer):
    """top = x * scale + bias, where scale and bias cover some axes of x.

    bottom[0], top[0]  any shape
    bottom[1]          the scale, if it is not learned: axes of bottom[0] from `axis` on
    blobs              scale (unless bottom[1]), bias (with bias_term)
    Reads scale_param. Scales start at 1, biases at 0, if no fillers are given.
    """

    bottoms = between(1, 2)
    tops = exactly(1)
    in_place = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Make scale and bias."""
        param = self.param.scale_param
        self.learned = len(bottoms) == 1
        self.has_bias: bool = param.bias_term
        if self.learned:
            shape = parameter_shape(bottoms[0], param.axis, param.num_axes)
        else:
            shape = bottoms[1].shape
        fillers = []
        if self.learned:
            fillers.append(param.filler if param.HasField("filler") else constant(1))
        if self.has_bias:
            fillers.append(param.bias_filler)
        self.make_blobs([shape] * len(fillers), fillers)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape."""
        bottom = bottoms[0]
        shape = self.blobs[0].shape if self.learned else bottoms[1].shape
        view = broadcast_view(bottom, self.param.scale_param.axis, shape)
        if self.has_bias:
            broadcast_view(bottom, self.param.scale_param.axis, self.blobs[-1].shape)
        tops[0].reshape(bottom.shape)
        self._forward = self.engine.plan(AffineForward(*view, has_bias=self.has_bias))
        self._to_data = Deferred(self.engine, AffineForward(*view))
        to_scale = AffineBackwardWeights(*view, accumulate=self.learned)
        self._to_scale = Deferred(self.engine, to_scale)
        to_bias = AffineBackwardWeights(*view, has_scale=False, has_bias=True)
        self._to_bias = Deferred(self.engine, to_bias)
        self._to_both = Deferred(self.engine, AffineBackwardWeights(*view, has_bias=True))
        self._kept: F32 | None = None
        if tops[0] is bottom:
            self._kept = aligned_zeros(bottom.shape)
            self._keep = self.engine.plan(Concat(1, (bottom.count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Multiply and add; in place, keep x for the gradient of the scale."""
        x = bottoms[0].data
        if self._kept is not None:
            self._keep(x, self._kept)
        parts = [self.blobs[0].data if self.learned else bottoms[1].data]
        if self.has_bias:
            parts.append(self.blobs[-1].data)
        self._forward(x, *parts, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Weights before the data, whose gradient may take the top's place."""
        x = bottoms[0].data if self._kept is None else self._kept
        diff = tops[0].diff
        scaled = self.learns(0) if self.learned else propagate_down[1]
        biased = self.has_bias and self.learns(len(self.blobs) - 1)
        diff_scale = self.blobs[0].diff if self.learned else bottoms[1].diff
        if scaled and biased and self.learned:
            self._to_both(x, diff, diff_scale, self.blobs[1].diff)
        else:
            if scaled:
                self._to_scale(x, diff, diff_scale)
            if biased:
                self._to_bias(diff, self.blobs[-1].diff)
        if propagate_down[0]:
            scale = self.blobs[0].data if self.learned else bottoms[1].data
            self._to_data(diff, scale, bottoms[0].diff)
