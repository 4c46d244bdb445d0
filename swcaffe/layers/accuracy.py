"""Accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.errors import NetError, ParameterError
from swcaffe.layers._loss import ClassAxis, check_labels, ignore_label
from swcaffe.net.layer import LAYERS, Blobs, Layer, between, exactly
from swcaffe.operators.loss import AccuracyCount

__all__ = ["Accuracy"]


@LAYERS.register("Accuracy")
class Accuracy(Layer):
    """Share of positions whose label is among the top_k scores; ties count against it.

    bottom[0]  scores, classes on `axis`
    bottom[1]  one label per position
    top[0]     scalar; 0 if every label is ignored
    top[1]     (classes): the same for each class, 0 for those that do not occur
    Reads accuracy_param. Has no gradient.
    """

    bottoms = exactly(2)
    tops = between(1, 2)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read accuracy_param."""
        param = self.param.accuracy_param
        self.top_k: int = param.top_k
        self.ignored = ignore_label(param)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Fix the class axis."""
        self.view = v = ClassAxis.of(bottoms[0], self.param.accuracy_param.axis, bottoms[1])
        if not 1 <= self.top_k <= v.classes:
            raise ParameterError(
                f"top_k {self.top_k} must be 1 to the {v.classes} classes", fix="lower top_k"
            )
        op = AccuracyCount(v.outer, v.classes, v.inner, self.top_k, self.ignored)
        self._count = self.engine.plan(op)
        self._found, self._seen = np.zeros((2, v.classes), np.float64)
        tops[0].reshape(())
        if len(tops) == 2:
            tops[1].reshape((v.classes,))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Count, then divide."""
        labels = bottoms[1].data
        check_labels(labels, self.view.classes, self.ignored, self.view.inner)
        self._count(bottoms[0].data, labels, self._found, self._seen)
        tops[0].data[...] = self._found.sum() / max(self._seen.sum(), 1)
        if len(tops) == 2:
            tops[1].data[...] = self._found / np.maximum(self._seen, 1)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Raise NetError if a gradient is asked for."""
        if any(propagate_down):
            raise NetError(
                "has no gradient, but its bottoms ask for one",
                fix="give Accuracy only in TEST, or do not set force_backward or its loss_weight",
            )
