"""Convolution."""

from __future__ import annotations

import math

from swcaffe.arrays import F32, Shape
from swcaffe.layers._base_conv import BaseConvolution
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs
from swcaffe.operators.affine import AffineBackwardWeights
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)

__all__ = ["Convolution"]


@LAYERS.register("Convolution")
class Convolution(BaseConvolution):
    """Cross-correlation with zero padding over any number of spatial axes.

    bottom[i]  (n, c, *size)
    top[i]     (n, num_output, *out)   out = (size + 2 pad - extent) / stride + 1, truncated
    weight     (num_output, c / group, *kernel)      bias (num_output)
    Reads convolution_param.
    """

    def weight_shape(self) -> Shape:
        """(num_output, c / group, *kernel)."""
        return (self.num_output, self.channels // self.group, *self.window.kernel)

    def geometry(self, n: int, size: Shape) -> ConvGeometry:
        """The bottom is the convolution's source."""
        w = self.window
        return ConvGeometry(
            n=n,
            ic=self.channels,
            oc=self.num_output,
            in_size=size,
            kernel=w.kernel,
            stride=w.stride,
            pad=w.pad,
            dilation=w.dilation,
            groups=self.group,
        )

    def out_size(self, geometry: ConvGeometry) -> Shape:
        """The convolution's."""
        return geometry.out_size

    def make_plans(self, geometry: ConvGeometry) -> None:
        """Forward, and the gradients as they may be asked for."""
        n, oc, pixels = geometry.n, geometry.oc, math.prod(geometry.out_size)
        self._forward = self.engine.plan(ConvForward(geometry, self.has_bias))
        self._to_data = Deferred(self.engine, ConvBackwardData(geometry))
        self._to_both = Deferred(self.engine, ConvBackwardWeights(geometry, has_bias=True))
        self._to_weights = Deferred(self.engine, ConvBackwardWeights(geometry, has_bias=False))
        bias_only = AffineBackwardWeights(n, oc, pixels, has_scale=False, has_bias=True)
        self._to_bias = Deferred(self.engine, bias_only)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Convolve each bottom."""
        parameters = [blob.data for blob in self.blobs]
        for bottom, top in zip(bottoms, tops, strict=True):
            self._forward(bottom.data, *parameters, top.data)

    def backward_one(self, diff_top: F32, bottom: F32, diff_bottom: F32 | None) -> None:
        """Weights and bias in one operator if both learn."""
        weights, biases = self.learns(0), self.has_bias and self.learns(1)
        if weights and biases:
            self._to_both(bottom, diff_top, self.blobs[0].diff, self.blobs[1].diff)
        elif weights:
            self._to_weights(bottom, diff_top, self.blobs[0].diff)
        elif biases:
            self._to_bias(diff_top, self.blobs[1].diff)
        if diff_bottom is not None:
            self._to_data(self.blobs[0].data, diff_top, diff_bottom)
