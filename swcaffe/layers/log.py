"""Log."""

from __future__ import annotations

from swcaffe.errors import ParameterError
from swcaffe.layers._unary import Unary, natural_log
from swcaffe.net.layer import LAYERS
from swcaffe.operators.unary import UnaryKind

__all__ = ["Log"]


@LAYERS.register("Log")
class Log(Unary):
    """top = log of (shift + scale * x) to the given base; without a base, e."""

    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """Reads log_param: base, scale, shift. Raises ParameterError for a base that has none."""
        param = self.param.log_param
        log_base = natural_log(param.base)
        if log_base == 0:
            raise ParameterError("base 1 has no logarithms", fix="give another base, or none for e")
        return "log", (1 / log_base, param.scale, param.shift)
