"""Swish."""

from __future__ import annotations

from swcaffe.layers._unary import Unary
from swcaffe.net.layer import LAYERS
from swcaffe.operators.unary import UnaryKind

__all__ = ["Swish"]


@LAYERS.register("Swish")
class Swish(Unary):
    """top = x * sigmoid(beta * x) (Ramachandran, Zoph and Le 2017)."""

    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """Reads swish_param: beta."""
        return "swish", (self.param.swish_param.beta,)
