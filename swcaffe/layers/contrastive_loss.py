"""ContrastiveLoss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import aligned_zeros
from swcaffe.errors import NetError, ShapeError
from swcaffe.layers._loss import LossLayer
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, exactly
from swcaffe.operators.margin import ContrastiveBackward, ContrastiveForward

__all__ = ["ContrastiveLoss"]


@LAYERS.register("ContrastiveLoss")
class ContrastiveLoss(LossLayer):
    """Pulls similar pairs together and pushes others apart up to a margin (Hadsell et al. 2006).

    bottom[0], bottom[1]  (n, …), the two sides of n pairs
    bottom[2]             (n), not 0 for similar pairs
    top[0]                scalar: sum / (2 n)
    Reads contrastive_loss_param: margin; legacy_version, in which margin is that of the square.
    """

    bottoms = exactly(3)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """No parameters to check."""
        self._total = np.zeros(1, np.float64)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check that there are as many values on both sides, and one flag per pair."""
        super().reshape(bottoms, tops)
        a, b, similar = bottoms
        if a.count != b.count:
            raise ShapeError(f"bottoms {a!r} and {b!r} differ in size", fix="feed pairs")
        self._items = a.shape[0] if a.shape else 1
        if similar.count != self._items:
            raise ShapeError(
                f"bottom {similar!r} must hold one value for each of {self._items} pairs",
                fix="feed shape (n)",
            )
        param = self.param.contrastive_loss_param
        what = (self._items, a.size(1), param.margin, param.legacy_version)
        self._difference = aligned_zeros(a.shape)
        self._forward = self.engine.plan(ContrastiveForward(*what))
        self._backward = Deferred(self.engine, ContrastiveBackward(*what))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Keep the difference."""
        self._forward(*(bottom.data for bottom in bottoms), self._difference, self._total)
        tops[0].data[...] = self._total[0] / (2 * max(self._items, 1))

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """± slope * difference * loss weight / n. Raises NetError if flags are asked for one."""
        if propagate_down[2]:
            raise NetError(
                f"cannot backpropagate to its labels {bottoms[2]!r}",
                fix="set propagate_down: false for the labels",
            )
        for bottom, sign, wanted in zip(bottoms, (1, -1), propagate_down, strict=False):
            if wanted:
                factor = self.factor(tops, sign * max(self._items, 1))
                self._backward(self._difference, bottoms[2].data, factor, bottom.diff)

    def backward_scores(self, tops: Blobs, bottoms: Blobs) -> None:
        """Part of `backward`."""
        self.backward(tops, (True, False, False), bottoms)

    def allow_force_backward(self, bottom: int) -> bool:
        """Both sides of the pairs."""
        return bottom != 2
