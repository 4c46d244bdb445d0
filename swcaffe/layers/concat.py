"""Concat."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least, exactly
from swcaffe.operators.layout import Concat as ConcatOperator
from swcaffe.operators.layout import Slice

__all__ = ["Concat"]


@LAYERS.register("Concat")
class Concat(Layer):
    """Bottoms side by side along `axis`; all other axes agree. One bottom shares its memory.

    Reads concat_param: axis, or the older concat_dim.
    """

    bottoms = at_least(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check that the axis is given once."""
        param = self.param.concat_param
        if param.HasField("axis") and param.HasField("concat_dim"):
            raise ParameterError("both axis and concat_dim are given", fix="keep axis")
        self.axis: int = param.concat_dim if param.HasField("concat_dim") else param.axis

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top is as long along the axis as the bottoms together."""
        first = bottoms[0]
        axis = first.axis(self.axis)
        rest = (*first.shape[:axis], *first.shape[axis + 1 :])
        for other in bottoms[1:]:
            shape = other.shape
            if len(shape) != len(first.shape) or (*shape[:axis], *shape[axis + 1 :]) != rest:
                raise ShapeError(
                    f"bottoms {first!r} and {other!r} differ beside axis {axis}, along which they "
                    "are joined",
                    fix="make their other axes equal",
                )
        long = sum(bottom.shape[axis] for bottom in bottoms)
        tops[0].reshape((*first.shape[:axis], long, *first.shape[axis + 1 :]))
        self._shares = len(bottoms) == 1 and not self.context.overwriters
        if self._shares:
            tops[0].share(first)
            return
        self._outer = first.size(0, axis)
        self._widths = tuple(bottom.size(axis) for bottom in bottoms)
        self._forward = self.engine.plan(ConcatOperator(self._outer, self._widths))
        self._backward: dict[tuple[int, ...], Deferred] = {}

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Copy."""
        if not self._shares:
            self._forward(*(bottom.data for bottom in bottoms), tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Copy the parts that are wanted."""
        wanted = tuple(i for i, flag in enumerate(propagate_down) if flag)
        if self._shares or not wanted:
            return
        if wanted not in self._backward:
            op = Slice(self._outer, self._widths, wanted)
            self._backward[wanted] = Deferred(self.engine, op)
        self._backward[wanted](tops[0].diff, *(bottoms[i].diff for i in wanted))
