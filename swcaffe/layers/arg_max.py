"""ArgMax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import aligned_zeros
from swcaffe.errors import NetError, ParameterError
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators.top_k import TopK

__all__ = ["ArgMax"]


@LAYERS.register("ArgMax")
class ArgMax(Layer):
    """Where the top_k largest values are, and on request what they are; has no gradient.

    bottom[0]  (n, …)
    top[0]     without axis, over each whole item: (n, 1, top_k, 1, …) numbers, or with out_max_val
               (n, 2, top_k, 1, …) numbers and values; at least 3 axes, else as many as the bottom
               with axis: the bottom's shape, top_k along it: numbers, or with out_max_val values
    Reads argmax_param. Of equal values the one that comes later in the bottom comes first.
    """

    bottoms = exactly(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read argmax_param."""
        param = self.param.argmax_param
        self.along_axis: bool = param.HasField("axis")
        self.top_k: int = param.top_k
        self.wants_values: bool = param.out_max_val

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Fix what is compared."""
        bottom, k = bottoms[0], self.top_k
        axis = bottom.axis(self.param.argmax_param.axis) if self.along_axis else 0
        if self.along_axis:
            view = (bottom.size(0, axis), bottom.shape[axis], bottom.size(axis + 1))
            shape = (*bottom.shape[:axis], k, *bottom.shape[axis + 1 :])
        else:
            view = (bottom.size(0, 1), bottom.size(1), 1)
            more = (1,) * (len(bottom.shape) - 3)
            shape = (view[0], 1 + self.wants_values, k, *more)
        if not 1 <= k <= view[1]:
            raise ParameterError(
                f"top_k {k} must be 1 to the {view[1]} values of bottom {bottom!r} to choose from",
                fix="lower top_k",
            )
        tops[0].reshape(shape)
        self._find = self.engine.plan(TopK(*view, k))
        found = (view[0], k, view[2])
        self._values, self._index = aligned_zeros(found), aligned_zeros(found, np.int32)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Find, then lay out what is asked for."""
        self._find(bottoms[0].data, self._values, self._index)
        top = tops[0].data
        if self.along_axis:
            found = self._values if self.wants_values else self._index
            np.copyto(top, found.reshape(top.shape), casting="same_kind")
            return
        planes = top.reshape(*top.shape[:2], self.top_k)
        planes[:, 0] = self._index[:, :, 0]
        if self.wants_values:
            planes[:, 1] = self._values[:, :, 0]

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Raise NetError if a gradient is asked for."""
        if propagate_down[0]:
            raise NetError(
                f"has no gradient, but its bottom {bottoms[0]!r} asks for one",
                fix="set propagate_down: false, and do not set force_backward",
            )
