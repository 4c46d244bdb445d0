"""Slice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least, exactly
from swcaffe.operators.layout import Concat
from swcaffe.operators.layout import Slice as SliceOperator

__all__ = ["Slice"]


@LAYERS.register("Slice")
class Slice(Layer):
    """The bottom cut along `axis` at the slice points, or evenly. One top shares its memory.

    Reads slice_param: slice_point, axis, or the older slice_dim.
    """

    bottoms = exactly(1)
    tops = at_least(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check axis and slice points."""
        param = self.param.slice_param
        if param.HasField("axis") and param.HasField("slice_dim"):
            raise ParameterError("both axis and slice_dim are given", fix="keep axis")
        self.axis: int = param.slice_dim if param.HasField("slice_dim") else param.axis
        self.points = tuple(param.slice_point)
        if self.points and len(self.points) != len(tops) - 1:
            raise ParameterError(
                f"{len(self.points)} slice_point values for {len(tops)} tops",
                fix=f"give {len(tops) - 1}, or none to cut evenly",
            )

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Shape each piece."""
        bottom = bottoms[0]
        axis = bottom.axis(self.axis)
        lengths = self._lengths(bottom.shape[axis], len(tops), axis)
        for top, length in zip(tops, lengths, strict=True):
            top.reshape((*bottom.shape[:axis], length, *bottom.shape[axis + 1 :]))
        self._shares = len(tops) == 1 and not self.context.overwriters
        if self._shares:
            tops[0].share(bottom)
            return
        outer, widths = bottom.size(0, axis), tuple(top.size(axis) for top in tops)
        self._forward = self.engine.plan(SliceOperator(outer, widths, tuple(range(len(tops)))))
        self._backward = Deferred(self.engine, Concat(outer, widths))

    def _lengths(self, length: int, pieces: int, axis: int) -> list[int]:
        if not self.points:
            if length % pieces:
                raise ShapeError(
                    f"axis {axis} of length {length} cannot be cut into {pieces}",
                    fix="give slice_point, or a number of tops that divides the length",
                )
            return [length // pieces] * pieces
        ends = (0, *self.points, length)
        lengths = [b - a for a, b in pairwise(ends)]
        if min(lengths) < 1:
            raise ShapeError(
                f"slice_point {self.points} must rise within axis {axis} of length {length}",
                fix="give increasing points between 0 and the length",
            )
        return lengths

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Copy."""
        if not self._shares:
            self._forward(bottoms[0].data, *(top.data for top in tops))

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Copy back."""
        if propagate_down[0] and not self._shares:
            self._backward(*(top.diff for top in tops), bottoms[0].diff)
