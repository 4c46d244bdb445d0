"""SigmoidCrossEntropyLoss."""

from __future__ import annotations

import numpy as np

from swcaffe.errors import ShapeError
from swcaffe.layers._loss import LossLayer, Normalizer, ignore_label
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs
from swcaffe.operators.loss import SigmoidLossBackward, SigmoidLossForward
from swcaffe.proto import messages

__all__ = ["SigmoidCrossEntropyLoss"]


@LAYERS.register("SigmoidCrossEntropyLoss")
class SigmoidCrossEntropyLoss(LossLayer):
    """Logistic loss of each score against a target in [0, 1].

    bottom[0]  scores (n, …)
    bottom[1]  targets of the same count
    top[0]     scalar: sum / normaliser, which is n unless loss_param says otherwise
    Reads loss_param.
    """

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read loss_param."""
        self.ignored = ignore_label(self.param.loss_param)
        self.normalizer = Normalizer(self.param.loss_param, messages.LossParameter.BATCH_SIZE)
        self._totals = np.zeros(2, np.float64)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check the counts."""
        super().reshape(bottoms, tops)
        count = bottoms[0].count
        if bottoms[1].count != count:
            raise ShapeError(
                f"scores {bottoms[0]!r} and targets {bottoms[1]!r} differ in size",
                fix="give one target per score",
            )
        self._forward = self.engine.plan(SigmoidLossForward(count, self.ignored))
        self._backward = Deferred(self.engine, SigmoidLossBackward(count, self.ignored))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Sum and divide."""
        scores = bottoms[0]
        self._forward(scores.data, bottoms[1].data, self._totals)
        total, counted = self._totals
        items = scores.shape[0] if scores.shape else 1
        self._divisor = self.normalizer(items, scores.count, counted)
        tops[0].data[...] = total / self._divisor

    def backward_scores(self, tops: Blobs, bottoms: Blobs) -> None:
        """(sigmoid - target) * loss weight / normaliser."""
        factor = self.factor(tops, self._divisor)
        self._backward(bottoms[0].data, bottoms[1].data, factor, bottoms[0].diff)
