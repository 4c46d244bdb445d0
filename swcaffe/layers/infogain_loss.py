"""InfogainLoss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.errors import DataError, NetError, ParameterError, ShapeError
from swcaffe.layers._loss import ClassAxis, LossLayer, Normalizer, check_labels, ignore_label
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, between
from swcaffe.operators.likelihood import InfogainBackward, InfogainForward
from swcaffe.operators.softmax import SoftmaxForward
from swcaffe.proto import binary, messages

__all__ = ["InfogainLoss"]


@LAYERS.register("InfogainLoss")
class InfogainLoss(LossLayer):
    """Logistic loss of softmax probabilities, each class weighted by its gain for the label.

    bottom[0]  scores, classes on infogain_loss_param.axis: not probabilities
    bottom[1]  one label per position
    bottom[2]  the matrix H (label, class) of classes^2 values; or else infogain_loss_param.source,
               a binary BlobProto
    top[0]     scalar: sum of -H[label, l] log p[l] / normaliser
    top[1]     probabilities, shape of the scores
    Reads infogain_loss_param, loss_param (but not its older normalize).
    """

    bottoms = between(2, 3)
    tops = between(1, 2)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read parameters and, without bottom 2, the matrix."""
        loss = self.param.loss_param
        if loss.HasField("normalize"):
            raise ParameterError(
                "normalize has no meaning here",
                fix="give normalization: VALID for true, BATCH_SIZE for false",
            )
        self.ignored = ignore_label(loss)
        self.normalizer = Normalizer(loss, messages.LossParameter.VALID)
        self._totals = np.zeros(2, np.float64)
        self._stored: F32 | None = None
        if len(bottoms) == 2:
            source = self.param.infogain_loss_param.source
            if not source:
                raise ParameterError(
                    "there is no infogain matrix",
                    fix="give it as bottom 2, or set source in infogain_loss_param",
                )
            blob = binary.read(source, messages.BlobProto, DataError)
            self._stored = np.ascontiguousarray(binary.blob_to_array(blob))

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Fix the class axis, check the matrix, plan."""
        super().reshape(bottoms, tops)
        axis = self.param.infogain_loss_param.axis
        self.view = v = ClassAxis.of(bottoms[0], axis, bottoms[1])
        shape = bottoms[2].shape if self._stored is None else self._stored.shape
        if np.prod(shape) != v.classes**2:
            raise ShapeError(
                f"the infogain matrix has shape {shape}, {v.classes} classes need "
                f"{v.classes} x {v.classes} values",
                fix="give a row for each label and a column for each class",
            )
        what = (v.outer, v.classes, v.inner)
        self._softmax = self.engine.plan(SoftmaxForward(*what))
        self._forward = self.engine.plan(InfogainForward(*what, self.ignored))
        self._backward = Deferred(self.engine, InfogainBackward(*what, self.ignored))
        self._prob = aligned_zeros(bottoms[0].shape)
        if len(tops) == 2:
            tops[1].reshape(bottoms[0].shape)

    def _matrix(self, bottoms: Blobs) -> F32:
        return bottoms[2].data if self._stored is None else self._stored

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Probabilities and loss."""
        v, labels = self.view, bottoms[1].data
        check_labels(labels, v.classes, self.ignored, v.inner)
        self._softmax(bottoms[0].data, self._prob)
        self._forward(self._prob, labels, self._matrix(bottoms), self._totals)
        if len(tops) == 2:
            np.copyto(tops[1].data, self._prob)
        total, counted = self._totals
        self._divisor = self.normalizer(v.outer, v.outer * v.inner, counted)
        tops[0].data[...] = total / self._divisor

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Overwrite the scores' gradient. Raises NetError if labels or matrix are asked for one."""
        if any(propagate_down[2:]):
            raise NetError(
                f"cannot backpropagate to its infogain matrix {bottoms[2]!r}",
                fix="set propagate_down: false for the matrix",
            )
        super().backward(tops, propagate_down, bottoms)

    def backward_scores(self, tops: Blobs, bottoms: Blobs) -> None:
        """(p[l] * sum of H[label] - H[label, l]) * loss weight / normaliser."""
        factor = self.factor(tops, self._divisor)
        labels, matrix = bottoms[1].data, self._matrix(bottoms)
        self._backward(self._prob, labels, matrix, factor, bottoms[0].diff)

    def allow_force_backward(self, bottom: int) -> bool:
        """The scores only."""
        return bottom == 0
