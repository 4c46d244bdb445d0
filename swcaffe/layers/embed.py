"""Embed."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.errors import NetError, ParameterError
from swcaffe.layers._loss import check_labels
from swcaffe.layers._plans import Deferred
from swcaffe.layers._weights import WeightedLayer
from swcaffe.net.layer import LAYERS, Blobs, exactly
from swcaffe.operators.affine import AffineBackwardWeights
from swcaffe.operators.embed import EmbedBackward, EmbedForward

__all__ = ["Embed"]


@LAYERS.register("Embed")
class Embed(WeightedLayer):
    """A row of a learned table for each index: top = weight[index] + bias.

    bottom[0]  indices 0 … input_dim - 1, any shape
    top[0]     (*shape, num_output)
    weight     (input_dim, num_output)      bias (num_output)
    Reads embed_param. Raises DataError for an index out of range. Indices have no gradient.
    """

    bottoms = exactly(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Make table and bias."""
        param = self.param.embed_param
        self.rows, self.width = int(param.input_dim), int(param.num_output)
        self.has_bias: bool = param.bias_term
        if self.rows < 1 or self.width < 1:
            raise ParameterError(
                f"num_output is {self.width} and input_dim {self.rows}; both must be given",
                fix="set both in embed_param",
            )
        shapes = [(self.rows, self.width), (self.width,)][: 1 + self.has_bias]
        self.make_blobs(shapes, [param.weight_filler, param.bias_filler][: len(shapes)])

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """One row per index."""
        count = bottoms[0].count
        tops[0].reshape((*bottoms[0].shape, self.width))
        what = (count, self.rows, self.width)
        self._forward = self.engine.plan(EmbedForward(*what, self.has_bias))
        self._to_table = Deferred(self.engine, EmbedBackward(*what))
        self._to_bias = Deferred(
            self.engine, AffineBackwardWeights(count, self.width, 1, False, True)
        )

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Look up."""
        index = bottoms[0]
        check_labels(index.data, self.rows, None, max(index.size(1), 1), what="index")
        self._forward(index.data, *(blob.data for blob in self.blobs), tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Add each gradient to its row. Raises NetError if the indices are asked for one."""
        if propagate_down[0]:
            raise NetError(
                f"cannot backpropagate to its indices {bottoms[0]!r}",
                fix="set propagate_down: false, or do not set force_backward",
            )
        if self.learns(0):
            self._to_table(bottoms[0].data, tops[0].diff, self.blobs[0].diff)
        if self.has_bias and self.learns(1):
            self._to_bias(tops[0].diff, self.blobs[1].diff)
