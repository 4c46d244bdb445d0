"""EuclideanLoss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import aligned_zeros
from swcaffe.errors import ShapeError
from swcaffe.layers._loss import LossLayer
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs
from swcaffe.operators.affine import AffineForward
from swcaffe.operators.loss import EuclideanLossForward

__all__ = ["EuclideanLoss"]


@LAYERS.register("EuclideanLoss")
class EuclideanLoss(LossLayer):
    """Half the mean squared distance: sum of (a - b)^2 / (2 n); both bottoms take gradients.

    bottom[0], bottom[1]  (n, …), of the same count
    top[0]                scalar
    """

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """No parameters."""
        self._total = np.zeros(1, np.float64)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check the counts."""
        super().reshape(bottoms, tops)
        count = bottoms[0].count
        if bottoms[1].count != count:
            raise ShapeError(
                f"bottoms {bottoms[0]!r} and {bottoms[1]!r} differ in size",
                fix="feed as many values as there are targets",
            )
        self._items = bottoms[0].shape[0] if bottoms[0].shape else 1
        self._difference = aligned_zeros((count,))
        self._forward = self.engine.plan(EuclideanLossForward(count))
        self._scaled = Deferred(self.engine, AffineForward(1, 1, count))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Keep the difference."""
        self._forward(bottoms[0].data, bottoms[1].data, self._difference, self._total)
        tops[0].data[...] = self._total[0] / (2 * max(self._items, 1))

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """± difference * loss weight / n."""
        for bottom, sign, wanted in zip(bottoms, (1, -1), propagate_down, strict=True):
            if wanted:
                factor = self.factor(tops, sign * max(self._items, 1))
                self._scaled(self._difference, factor, bottom.diff)

    def backward_scores(self, tops: Blobs, bottoms: Blobs) -> None:
        """Part of `backward`."""
        self.backward(tops, (True, False), bottoms)

    def allow_force_backward(self, bottom: int) -> bool:
        """Both bottoms may be scores."""
        return True
