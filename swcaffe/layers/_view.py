"""Base of layers that only rename axes: the top shares the bottom's memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from swcaffe.arrays import Shape
from swcaffe.layers._plans import Deferred
from swcaffe.net.blob import Blob
from swcaffe.net.layer import Blobs, Layer, exactly
from swcaffe.operators.layout import Concat

__all__ = ["View"]


class View(Layer):
    """The bottom's values and gradient under another shape.

    If a later layer works in place on the top, the top is a copy, so that others who read the
    bottom's memory keep their values.
    """

    bottoms = exactly(1)
    tops = exactly(1)

    @abstractmethod
    def top_shape(self, bottom: Blob) -> Shape:
        """Shape of the top, of the same count. Raises ShapeError."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Share the memory under the new shape."""
        tops[0].reshape(self.top_shape(bottoms[0]))
        if self.context.overwriters:
            self._copy = Deferred(self.engine, Concat(1, (bottoms[0].count,)))
        else:
            tops[0].share(bottoms[0])

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing to move, unless the bottom has got other memory since."""
        if self.context.overwriters:
            self._copy(bottoms[0].data, tops[0].data)
        elif not tops[0].shares_data_with(bottoms[0]):
            tops[0].share(bottoms[0])

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Nothing to move, unless the top is a copy."""
        if self.context.overwriters and propagate_down[0]:
            self._copy(tops[0].diff, bottoms[0].diff)
