"""Base of elementwise layers without weights whose gradient reads the bottom alone."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.errors import NetError, ParameterError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import Blobs, Layer, exactly
from swcaffe.operators.layout import Concat
from swcaffe.operators.unary import UnaryBackward, UnaryForward, UnaryKind

__all__ = ["Unary", "natural_log"]


def natural_log(base: float) -> float:
    """ln(base), 1 for Caffe's -1, which stands for e. Raises ParameterError unless positive."""
    if base == -1:
        return 1.0
    if base <= 0:
        raise ParameterError(
            f"base {base:g} must be positive", fix="give a positive base, or none for e"
        )
    return math.log(base)


class Unary(Layer):
    """top = f(bottom), of the same shape.

    Later layers may work in place on the top; in place itself, the layer keeps a copy of x.
    """

    bottoms = exactly(1)
    tops = exactly(1)
    in_place = True
    has_gradient: ClassVar[bool] = True

    @abstractmethod
    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """The operator's kind and arguments, from the layer's parameters."""

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read and check the parameters."""
        self._kind, self._args = self.function()

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape."""
        shape, count = bottoms[0].shape, bottoms[0].count
        tops[0].reshape(shape)
        self._forward = self.engine.plan(UnaryForward(self._kind, count, self._args))
        self._kept: F32 | None = None
        if not self.has_gradient:
            return
        self._backward = Deferred(self.engine, UnaryBackward(self._kind, count, self._args))
        if tops[0] is bottoms[0]:
            self._kept = aligned_zeros(shape)
            self._keep = self.engine.plan(Concat(1, (count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Apply f; in place, keep x for the gradient."""
        if self._kept is not None:
            self._keep(bottoms[0].data, self._kept)
        self._forward(bottoms[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Apply f'. Raises NetError if there is none."""
        if not propagate_down[0]:
            return
        if not self.has_gradient:
            raise NetError(
                f"has no gradient, but its bottom {bottoms[0]!r} asks for one",
                fix="set propagate_down: false, and do not set force_backward",
            )
        x = bottoms[0].data if self._kept is None else self._kept
        self._backward(x, tops[0].diff, bottoms[0].diff)
