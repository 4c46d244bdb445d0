"""Input."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.errors import ParameterError
from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least, exactly

__all__ = ["Input"]


@LAYERS.register("Input")
class Input(Layer):
    """Tops that the caller fills; their values persist.

    Reads input_param: no shape, one for all tops, or one per top.
    """

    bottoms = exactly(0)
    tops = at_least(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Shape the tops."""
        shapes = [tuple(shape.dim) for shape in self.param.input_param.shape]
        if len(shapes) not in {0, 1, len(tops)}:
            raise ParameterError(
                f"{len(shapes)} shapes for {len(tops)} tops", fix="give one, or one per top"
            )
        for top, shape in zip(tops, shapes * len(tops), strict=False):
            top.reshape(shape)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing: the caller may have reshaped the tops."""

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing: the caller fills the tops."""

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Nothing to propagate to."""
