"""AbsVal."""

from __future__ import annotations

from swcaffe.layers._unary import Unary
from swcaffe.net.layer import LAYERS
from swcaffe.operators.unary import UnaryKind

__all__ = ["AbsVal"]


@LAYERS.register("AbsVal")
class AbsVal(Unary):
    """top = |x|; the slope at 0 is 0."""

    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """No parameters."""
        return "abs", ()
