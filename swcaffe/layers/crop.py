"""Crop."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import Shape
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.net.blob import Blob
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators.crop import CropBackward, CropForward, CropGeometry

__all__ = ["Crop"]


@LAYERS.register("Crop")
class Crop(Layer):
    """The block of bottom 0 that has the sizes of bottom 1 on all axes from `axis` on.

    bottom[1]  of which only the shape is read; its gradient, if wanted, is 0
    Reads crop_param: axis; offset, once for all cropped axes or once for each.
    """

    bottoms = exactly(2)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing: axes are looked up with each shape."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Fix the block."""
        bottom, like = bottoms
        if len(like.shape) < len(bottom.shape):
            raise ShapeError(
                f"bottom {like!r} has fewer axes than {bottom!r}, which is to get its sizes",
                fix="give both the same axes",
            )
        axis = bottom.axis(self.param.crop_param.axis)
        offset = (0,) * axis + self._offsets(bottom, axis)
        shape = (*bottom.shape[:axis], *like.shape[axis : len(bottom.shape)])
        for i, (have, need, at) in enumerate(zip(bottom.shape, shape, offset, strict=True)):
            if at + need > have:
                raise ShapeError(
                    f"axis {i} of bottom {bottom!r} is too short for {need} from {at} on, as "
                    f"bottom {like!r} asks for",
                    fix="lower the offset, or feed a larger bottom",
                )
        tops[0].reshape(shape)
        geometry = CropGeometry(bottom.shape, shape, offset)
        self._forward = self.engine.plan(CropForward(geometry))
        self._backward = Deferred(self.engine, CropBackward(geometry))

    def _offsets(self, bottom: Blob, axis: int) -> Shape:
        """One offset for each cropped axis."""
        given, cropped = tuple(self.param.crop_param.offset), len(bottom.shape) - axis
        if len(given) not in {0, 1, cropped}:
            raise ParameterError(
                f"{len(given)} offset values for {cropped} cropped axes of bottom {bottom!r}",
                fix="give none, one for all, or one for each",
            )
        return given if len(given) == cropped else (given or (0,)) * cropped

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Cut."""
        self._forward(bottoms[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Put the block back among zeros."""
        if propagate_down[0]:
            self._backward(tops[0].diff, bottoms[0].diff)
        if propagate_down[1]:
            bottoms[1].diff.fill(0)
