"""SoftmaxWithLoss."""

from __future__ import annotations

import numpy as np

from swcaffe.arrays import aligned_zeros
from swcaffe.layers._loss import ClassAxis, LossLayer, Normalizer, check_labels, ignore_label
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, between
from swcaffe.operators.softmax import SoftmaxLossBackward, SoftmaxLossForward
from swcaffe.proto import messages

__all__ = ["SoftmaxWithLoss"]


@LAYERS.register("SoftmaxWithLoss")
class SoftmaxWithLoss(LossLayer):
    """Multinomial logistic loss of softmax probabilities.

    bottom[0]  scores, classes on softmax_param.axis
    bottom[1]  one label per position, any shape
    top[0]     scalar: sum of -log max(p[label], FLT_MIN) / normaliser
    top[1]     probabilities, shape of the scores
    Reads softmax_param, loss_param. Raises DataError for labels that are no class.
    """

    tops = between(1, 2)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read parameters."""
        self.ignored = ignore_label(self.param.loss_param)
        self.normalizer = Normalizer(self.param.loss_param, messages.LossParameter.VALID)
        self._totals = np.zeros(2, np.float64)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Fix the class axis, plan."""
        super().reshape(bottoms, tops)
        self.view = v = ClassAxis.of(bottoms[0], self.param.softmax_param.axis, bottoms[1])
        what = (v.outer, v.classes, v.inner, self.ignored)
        self._forward = self.engine.plan(SoftmaxLossForward(*what))
        self._backward = Deferred(self.engine, SoftmaxLossBackward(*what))
        if len(tops) == 2:
            tops[1].reshape(bottoms[0].shape)
        self._given_out = len(tops) == 2 and not self.context.overwriters
        if not self._given_out:
            self._own = aligned_zeros(bottoms[0].shape)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Probabilities and loss."""
        v, labels = self.view, bottoms[1].data
        check_labels(labels, v.classes, self.ignored, v.inner)
        self._prob = tops[1].data if self._given_out else self._own
        self._forward(bottoms[0].data, labels, self._prob, self._totals)
        if len(tops) == 2 and not self._given_out:
            np.copyto(tops[1].data, self._prob)
        total, counted = self._totals
        self._divisor = self.normalizer(v.outer, v.outer * v.inner, counted)
        tops[0].data[...] = total / self._divisor

    def backward_scores(self, tops: Blobs, bottoms: Blobs) -> None:
        """(probability - 1 at the label) * loss weight / normaliser."""
        factor = self.factor(tops, self._divisor)
        self._backward(self._prob, bottoms[1].data, factor, bottoms[0].diff)
