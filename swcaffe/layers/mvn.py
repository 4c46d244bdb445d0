"""MVN."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.errors import ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators.layout import Concat
from swcaffe.operators.standardize import StandardizeBackward, StandardizeForward

__all__ = ["MVN"]


@LAYERS.register("MVN")
class MVN(Layer):
    """top = (x - mean) / (deviation + eps), over each plane of each image, or each whole image.

    bottom[0]  (n, c, …)
    top[0]     the same, with at least 4 axes as in Caffe: (n, c) becomes (n, c, 1, 1)
    Reads mvn_param: normalize_variance, across_channels, eps. The gradient reads the bottom, so a
    later layer may work in place on the top; in place itself, MVN keeps a copy of x.
    """

    bottoms = exactly(1)
    tops = exactly(1)
    in_place = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read mvn_param."""
        param = self.param.mvn_param
        self.scaled: bool = param.normalize_variance
        self.group_axes = 1 if param.across_channels else 2

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Fix the groups."""
        bottom = bottoms[0]
        shape = bottom.shape
        if len(shape) < 2:
            raise ShapeError(
                f"bottom {bottom!r} must have at least 2 axes, (n, c, …)", fix="feed (n, c, …)"
            )
        groups, width = bottom.size(0, self.group_axes), bottom.size(self.group_axes)
        tops[0].reshape((*shape, *(1 for _ in range(4 - len(shape)))))
        eps: float = self.param.mvn_param.eps
        self._forward = self.engine.plan(StandardizeForward(groups, width, eps, self.scaled))
        self._backward = Deferred(self.engine, StandardizeBackward(groups, width, self.scaled))
        self._mean, self._divisor = aligned_zeros((groups,)), aligned_zeros((groups,))
        self._kept: F32 | None = None
        if self.scaled and tops[0] is bottom:
            self._kept = aligned_zeros(bottom.shape)
            self._keep = self.engine.plan(Concat(1, (bottom.count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Standardise, keep mean and divisor."""
        x, y = bottoms[0].data, tops[0].data
        if not bottoms[0].count:
            return
        if self._kept is not None:
            self._keep(x, self._kept)
        if self.scaled:
            self._forward(x, y, self._mean, self._divisor)
        else:
            self._forward(x, y, self._mean)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Through the element itself and through its group's mean and deviation."""
        if not propagate_down[0] or not bottoms[0].count:
            return
        diff, diff_bottom = tops[0].diff, bottoms[0].diff
        if self.scaled:
            x = bottoms[0].data if self._kept is None else self._kept
            self._backward(x, self._mean, self._divisor, diff, diff_bottom)
        else:
            self._backward(diff, diff_bottom)
