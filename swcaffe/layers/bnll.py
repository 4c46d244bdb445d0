"""BNLL."""

from __future__ import annotations

from swcaffe.layers._unary import Unary
from swcaffe.net.layer import LAYERS
from swcaffe.operators.unary import UnaryKind

__all__ = ["BNLL"]


@LAYERS.register("BNLL")
class BNLL(Unary):
    """top = log(1 + e^x), the binomial normal log likelihood."""

    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """No parameters."""
        return "bnll", ()
