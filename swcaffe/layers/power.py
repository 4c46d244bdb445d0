"""Power."""

from __future__ import annotations

from swcaffe.layers._unary import Unary
from swcaffe.net.layer import LAYERS
from swcaffe.operators.unary import UnaryKind

__all__ = ["Power"]


@LAYERS.register("Power")
class Power(Unary):
    """top = (shift + scale * x)^power."""

    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """Reads power_param: power, scale, shift."""
        param = self.param.power_param
        return "power", (param.power, param.scale, param.shift)
