"""Threshold."""

from __future__ import annotations

from swcaffe.layers._unary import Unary
from swcaffe.net.layer import LAYERS
from swcaffe.operators.unary import UnaryKind

__all__ = ["Threshold"]


@LAYERS.register("Threshold")
class Threshold(Unary):
    """top = 1 where x > threshold, else 0; without a gradient."""

    has_gradient = False

    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """Reads threshold_param: threshold."""
        return "threshold", (self.param.threshold_param.threshold,)
