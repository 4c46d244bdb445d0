"""BatchReindex."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.errors import NetError, ShapeError
from swcaffe.layers._loss import check_labels
from swcaffe.layers._rows import Rows
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly

__all__ = ["BatchReindex"]


@LAYERS.register("BatchReindex")
class BatchReindex(Layer):
    """Items of a batch in another order, some perhaps repeated or left out.

    bottom[0]  (n, …)
    bottom[1]  (m) numbers of items, 0 … n - 1
    top[0]     (m, …)
    """

    bottoms = exactly(2)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """No parameters."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """As many items as there are numbers."""
        bottom, index = bottoms
        bottom.axis(0)
        if len(index.shape) != 1:
            raise ShapeError(
                f"bottom {index!r} must have one axis, of item numbers",
                fix="flatten it from axis 0",
            )
        tops[0].reshape((*index.shape, *bottom.shape[1:]))
        self._rows = Rows(self.engine, bottom)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Pick. Raises ItemError for a number that is no item."""
        index = bottoms[1].data
        check_labels(index, bottoms[0].shape[0], None, what="index")
        self._rows.pick(index, bottoms[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Sum for each item. Raises NetError if the numbers are asked for a gradient."""
        if propagate_down[1]:
            raise NetError(
                f"cannot backpropagate to the item numbers {bottoms[1]!r}",
                fix="set propagate_down: false for them",
            )
        if propagate_down[0]:
            self._rows.put_back(bottoms[1].data, tops[0].diff, bottoms[0].diff)

    def allow_force_backward(self, bottom: int) -> bool:
        """Not to the numbers."""
        return bottom == 0
