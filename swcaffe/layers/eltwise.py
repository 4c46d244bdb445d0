"""Eltwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import aligned_zeros
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least, exactly
from swcaffe.operators.base import Operator
from swcaffe.operators.eltwise import EltwiseMax, EltwiseMaxBackward, EltwiseProduct, EltwiseSum
from swcaffe.proto import messages

__all__ = ["Eltwise"]

PROD, SUM, MAX = (getattr(messages.EltwiseParameter, name) for name in ("PROD", "SUM", "MAX"))


@LAYERS.register("Eltwise")
class Eltwise(Layer):
    """Weighted sum, product or maximum of bottoms of one shape.

    Reads eltwise_param. The gradient of a product is always made from the other factors, which is
    right at 0 too; `stable_prod_grad: false` is accepted and changes nothing but rounding.
    """

    bottoms = at_least(2)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read eltwise_param."""
        param = self.param.eltwise_param
        self.operation: int = param.operation
        given = list(param.coeff)
        if given and self.operation == PROD:
            raise ParameterError("coeff has no meaning for PROD", fix="remove coeff, or use SUM")
        if self.operation == SUM and len(given) not in {0, len(bottoms)}:
            raise ParameterError(
                f"{len(given)} coeff values for {len(bottoms)} bottoms", fix="give one per bottom"
            )
        self.coefficients = tuple(given or [1.0] * len(bottoms))

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """All shapes are equal."""
        first, arity = bottoms[0], len(bottoms)
        for other in bottoms[1:]:
            if other.shape != first.shape:
                raise ShapeError(
                    f"bottom {other!r} has another shape than bottom {first!r}",
                    fix="make their shapes equal",
                )
        tops[0].reshape(first.shape)
        forward: Operator
        gradients: list[Operator]
        if self.operation == SUM:
            forward = EltwiseSum(first.count, self.coefficients)
            gradients = [EltwiseSum(first.count, (c,)) for c in self.coefficients]
        elif self.operation == PROD:
            forward = EltwiseProduct(first.count, arity)
            gradients = [forward] * arity
        else:
            forward = EltwiseMax(first.count, arity)
            gradients = [EltwiseMaxBackward(first.count, i) for i in range(arity)]
            self._index = aligned_zeros(first.shape, np.int32)
        self._forward = self.engine.plan(forward)
        self._backward = [Deferred(self.engine, op) for op in gradients]

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Combine."""
        extra = (self._index,) if self.operation == MAX else ()
        self._forward(*(bottom.data for bottom in bottoms), tops[0].data, *extra)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """One gradient per bottom that wants it."""
        diff = tops[0].diff
        for i, (bottom, wanted) in enumerate(zip(bottoms, propagate_down, strict=True)):
            if not wanted:
                continue
            if self.operation == SUM:
                self._backward[i](diff, bottom.diff)
            elif self.operation == PROD:
                others = (other.data for j, other in enumerate(bottoms) if j != i)
                self._backward[i](diff, *others, bottom.diff)
            else:
                self._backward[i](self._index, diff, bottom.diff)
