"""Flatten."""

from __future__ import annotations

from swcaffe.arrays import Shape
from swcaffe.errors import ParameterError
from swcaffe.layers._view import View
from swcaffe.net.blob import Blob
from swcaffe.net.layer import LAYERS, Blobs

__all__ = ["Flatten"]


@LAYERS.register("Flatten")
class Flatten(View):
    """Axes `axis` … `end_axis` (inclusive) as one. Reads flatten_param."""

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing: axes are looked up with each shape."""

    def top_shape(self, bottom: Blob) -> Shape:
        """Axes before, one axis, axes behind."""
        param = self.param.flatten_param
        first, last = bottom.axis(param.axis), bottom.axis(param.end_axis)
        if first > last:
            raise ParameterError(
                f"axis {param.axis} lies behind end_axis {param.end_axis} of bottom {bottom!r}",
                fix="choose axis <= end_axis",
            )
        return (*bottom.shape[:first], bottom.size(first, last + 1), *bottom.shape[last + 1 :])
