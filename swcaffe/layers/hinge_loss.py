"""HingeLoss."""

from __future__ import annotations

import numpy as np

from swcaffe.layers._loss import ClassAxis, LossLayer, check_labels
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs
from swcaffe.operators.margin import HingeBackward, HingeForward
from swcaffe.proto import messages

__all__ = ["HingeLoss"]


@LAYERS.register("HingeLoss")
class HingeLoss(LossLayer):
    """One-against-all margins: mean over items of the sum of max(0, 1 ± score), or its square.

    bottom[0]  scores (n, …), a class for each value of an item
    bottom[1]  labels (n)
    top[0]     scalar
    Reads hinge_loss_param: norm, L1 or L2.
    """

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read hinge_loss_param."""
        self._squared = self.param.hinge_loss_param.norm == messages.HingeLossParameter.L2
        self._total = np.zeros(1, np.float64)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check that there is one label per item."""
        super().reshape(bottoms, tops)
        self.view = v = ClassAxis.of_items(*bottoms)
        self._forward = self.engine.plan(HingeForward(v.outer, v.classes, self._squared))
        backward = HingeBackward(v.outer, v.classes, self._squared)
        self._backward = Deferred(self.engine, backward)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Sum and divide."""
        labels = bottoms[1].data
        check_labels(labels, self.view.classes, None)
        self._forward(bottoms[0].data, labels, self._total)
        tops[0].data[...] = self._total[0] / max(self.view.outer, 1)

    def backward_scores(self, tops: Blobs, bottoms: Blobs) -> None:
        """± loss weight / n within the margin."""
        factor = self.factor(tops, max(self.view.outer, 1))
        self._backward(bottoms[0].data, bottoms[1].data, factor, bottoms[0].diff)
