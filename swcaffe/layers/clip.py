"""Clip."""

from __future__ import annotations

from swcaffe.errors import ParameterError
from swcaffe.layers._unary import Unary
from swcaffe.net.layer import LAYERS
from swcaffe.operators.unary import UnaryKind

__all__ = ["Clip"]


@LAYERS.register("Clip")
class Clip(Unary):
    """top = x, but at least min and at most max, where the slope is 1."""

    def function(self) -> tuple[UnaryKind, tuple[float, ...]]:
        """Reads clip_param: min, max. Raises ParameterError unless both are given, in order."""
        param = self.param.clip_param
        missing = [name for name in ("min", "max") if not param.HasField(name)]
        if missing:
            raise ParameterError(
                f"{' and '.join(missing)} missing", fix="set min and max in clip_param"
            )
        if param.min > param.max:
            raise ParameterError(
                f"min {param.min:g} is greater than max {param.max:g}", fix="exchange them"
            )
        return "clip", (param.min, param.max)
