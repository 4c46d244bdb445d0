"""MultinomialLogisticLoss."""

from __future__ import annotations

import numpy as np

from swcaffe.layers._loss import ClassAxis, LossLayer, check_labels
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs
from swcaffe.operators.likelihood import LogLossBackward, LogLossForward

__all__ = ["MultinomialLogisticLoss"]


@LAYERS.register("MultinomialLogisticLoss")
class MultinomialLogisticLoss(LossLayer):
    """Mean over items of -log of the label's probability, which a layer below has computed.

    bottom[0]  probabilities (n, …), a class for each value of an item
    bottom[1]  labels (n)
    top[0]     scalar
    SoftmaxWithLoss, which takes scores, is the one that is stable.
    """

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """No parameters."""
        self._total = np.zeros(1, np.float64)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check that there is one label per item."""
        super().reshape(bottoms, tops)
        self.view = v = ClassAxis.of_items(*bottoms)
        self._forward = self.engine.plan(LogLossForward(v.outer, v.classes))
        self._backward = Deferred(self.engine, LogLossBackward(v.outer, v.classes))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Sum and divide."""
        labels = bottoms[1].data
        check_labels(labels, self.view.classes, None)
        self._forward(bottoms[0].data, labels, self._total)
        tops[0].data[...] = self._total[0] / max(self.view.outer, 1)

    def backward_scores(self, tops: Blobs, bottoms: Blobs) -> None:
        """-loss weight / (n p) at the label."""
        factor = self.factor(tops, max(self.view.outer, 1))
        self._backward(bottoms[0].data, bottoms[1].data, factor, bottoms[0].diff)
