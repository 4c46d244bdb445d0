"""Deconvolution."""

from __future__ import annotations

import math

from swcaffe.arrays import F32, Shape
from swcaffe.layers._base_conv import BaseConvolution
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)

__all__ = ["Deconvolution"]


@LAYERS.register("Deconvolution")
class Deconvolution(BaseConvolution):
    """Transposed convolution: forward is a convolution's gradient to its data, and the reverse.

    bottom[i]  (n, c, *size)
    top[i]     (n, num_output, *out)   out = stride * (size - 1) + extent - 2 pad
    weight     (c, num_output / group, *kernel)      bias (num_output)
    Reads convolution_param.
    """

    def weight_shape(self) -> Shape:
        """(c, num_output / group, *kernel)."""
        return (self.channels, self.num_output // self.group, *self.window.kernel)

    def geometry(self, n: int, size: Shape) -> ConvGeometry:
        """The bottom is the convolution's destination, the top its source."""
        w = self.window
        spatial = zip(size, w.kernel, w.stride, w.pad, w.dilation, strict=True)
        return ConvGeometry(
            n=n,
            ic=self.num_output,
            oc=self.channels,
            in_size=tuple(s * (i - 1) + d * (k - 1) + 1 - 2 * p for i, k, s, p, d in spatial),
            kernel=w.kernel,
            stride=w.stride,
            pad=w.pad,
            dilation=w.dilation,
            groups=self.group,
        )

    def out_size(self, geometry: ConvGeometry) -> Shape:
        """The convolution's input size."""
        return geometry.in_size

    def make_plans(self, geometry: ConvGeometry) -> None:
        """Forward, and the gradients as they may be asked for."""
        shape = (geometry.n, self.num_output, math.prod(geometry.in_size))
        self._forward = self.engine.plan(ConvBackwardData(geometry))
        self._add_bias = Deferred(self.engine, AffineForward(*shape, False, True))
        self._to_data = Deferred(self.engine, ConvForward(geometry, has_bias=False))
        self._to_weights = Deferred(self.engine, ConvBackwardWeights(geometry, has_bias=False))
        self._to_bias = Deferred(self.engine, AffineBackwardWeights(*shape, False, True))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Scatter each bottom through the kernel, then add the bias."""
        for bottom, top in zip(bottoms, tops, strict=True):
            self._forward(self.blobs[0].data, bottom.data, top.data)
            if self.has_bias:
                self._add_bias(top.data, self.blobs[1].data, top.data)

    def backward_one(self, diff_top: F32, bottom: F32, diff_bottom: F32 | None) -> None:
        """The same operators with source and destination exchanged."""
        if self.learns(0):
            self._to_weights(diff_top, bottom, self.blobs[0].diff)
        if self.has_bias and self.learns(1):
            self._to_bias(diff_top, self.blobs[1].diff)
        if diff_bottom is not None:
            self._to_data(diff_top, self.blobs[0].data, diff_bottom)
