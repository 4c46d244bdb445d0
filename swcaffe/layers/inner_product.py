"""InnerProduct."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.layers._weights import WeightedLayer
from swcaffe.net.layer import LAYERS, Blobs, exactly
from swcaffe.operators.affine import AffineBackwardWeights
from swcaffe.operators.gemm import Gemm

__all__ = ["InnerProduct"]


@LAYERS.register("InnerProduct")
class InnerProduct(WeightedLayer):
    """Fully connected layer: top = bottom @ weight.T + bias.

    bottom[0]  (m…, k…)             axes from `axis` on are flattened to k
    top[0]     (m…, num_output)
    weight     (num_output, k), or (k, num_output) if transpose      bias (num_output)
    Reads inner_product_param. Raises ShapeError if k is not the k the weights were made for.
    """

    bottoms = exactly(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read inner_product_param, make weights and bias."""
        param = self.param.inner_product_param
        self.num_output: int = param.num_output
        self.transpose: bool = param.transpose
        self.has_bias: bool = param.bias_term
        if self.num_output < 1:
            raise ParameterError(
                "num_output is missing or 0", fix="set num_output in inner_product_param"
            )
        self.axis = bottoms[0].axis(param.axis)
        self.k = bottoms[0].size(self.axis)
        weight = (self.k, self.num_output) if self.transpose else (self.num_output, self.k)
        shapes = [weight, (self.num_output,)] if self.has_bias else [weight]
        self.make_blobs(shapes, [param.weight_filler, param.bias_filler][: len(shapes)])

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Set the top's shape, plan one product and its three gradients."""
        bottom, n, k, trans = bottoms[0], self.num_output, self.k, self.transpose
        m, found = bottom.size(0, self.axis), bottom.size(self.axis)
        if found != k:
            raise ShapeError(
                f"bottom {bottom!r} has {found} values per item from axis {self.axis} on, the "
                f"weights were made for {k}",
                fix="keep the input size fixed, or retrain this layer under a new name",
            )
        tops[0].reshape((*bottom.shape[: self.axis], n))
        self._forward = self.engine.plan(Gemm(m, n, k, trans_b=not trans, has_bias=self.has_bias))
        to_weights = (
            Gemm(k, n, m, trans_a=True, accumulate=True)
            if trans
            else Gemm(n, k, m, trans_a=True, accumulate=True)
        )
        self._to_weights = Deferred(self.engine, to_weights)
        self._to_data = Deferred(self.engine, Gemm(m, k, n, trans_b=trans))
        self._to_bias = Deferred(self.engine, AffineBackwardWeights(m, n, 1, False, True))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """One matrix product."""
        self._forward(bottoms[0].data, *(blob.data for blob in self.blobs), tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Two matrix products and a sum over rows."""
        diff, x = tops[0].diff, bottoms[0].data
        if self.learns(0):
            both = (x, diff) if self.transpose else (diff, x)
            self._to_weights(*both, self.blobs[0].diff)
        if self.has_bias and self.learns(1):
            self._to_bias(diff, self.blobs[1].diff)
        if propagate_down[0]:
            self._to_data(diff, self.blobs[0].data, bottoms[0].diff)
