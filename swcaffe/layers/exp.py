"""Exp."""

from __future__ import annotations

from swcaffe.layers._unary import Unary, natural_log
from swcaffe.net.layer import LAYERS
from swcaffe.operators.unary import UnaryKind

__all__ = ["Exp"]


@LAYERS.register("Exp")
class Exp(Unary):
    """top = base^(shift + scale * x); without a base, e."""

    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """Reads exp_param: base, scale, shift. Raises ParameterError for a base not positive."""
        param = self.param.exp_param
        log_base = natural_log(param.base)
        return "exp", (log_base * param.scale, log_base * param.shift)
