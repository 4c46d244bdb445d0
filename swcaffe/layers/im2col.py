"""Im2col."""

from __future__ import annotations

import math
from collections.abc import Sequence

from swcaffe.errors import ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.layers._window import read_window
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators import im2col
from swcaffe.operators.convolution import ConvGeometry

__all__ = ["Im2col"]


@LAYERS.register("Im2col")
class Im2col(Layer):
    """The windows that a convolution multiplies with its weights, as channels.

    bottom[0]  (n, c, *size)
    top[0]     (n, c * prod(kernel), *out)    channels in the order (c, *kernel)
    Reads convolution_param: kernel, stride, pad, dilation, axis.
    """

    bottoms = exactly(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read the window."""
        param, bottom = self.param.convolution_param, bottoms[0]
        self.axis, self.axes = bottom.axis(param.axis), len(bottom.shape)
        self.window = read_window(param, self.axes - self.axis - 1)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Sizes are those of the convolution."""
        bottom, w = bottoms[0], self.window
        if len(bottom.shape) != self.axes:
            raise ShapeError(
                f"bottom {bottom!r} must have {self.axes} axes, as the first one had",
                fix="keep the number of axes",
            )
        channels = bottom.shape[self.axis]
        rows = channels * math.prod(w.kernel)
        geometry = ConvGeometry(
            n=bottom.size(0, self.axis),
            ic=channels,
            oc=rows,
            in_size=bottom.shape[self.axis + 1 :],
            kernel=w.kernel,
            stride=w.stride,
            pad=w.pad,
            dilation=w.dilation,
        )
        if any(size < 1 for size in geometry.out_size):
            raise ShapeError(
                f"kernel {w.kernel} with dilation {w.dilation}, pad {w.pad} and stride {w.stride} "
                f"leaves {geometry.out_size} of bottom {bottom!r}",
                fix="lower kernel_size or dilation, raise pad, or feed larger images",
            )
        tops[0].reshape((*bottom.shape[: self.axis], rows, *geometry.out_size))
        self._forward = self.engine.plan(im2col.Im2col(geometry))
        self._backward = Deferred(self.engine, im2col.Col2im(geometry))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Copy the windows."""
        self._forward(bottoms[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Sum them back."""
        if propagate_down[0]:
            self._backward(tops[0].diff, bottoms[0].diff)
