"""Filter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import F32
from swcaffe.errors import NetError, ShapeError
from swcaffe.layers._rows import Rows
from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least

__all__ = ["Filter"]


@LAYERS.register("Filter")
class Filter(Layer):
    """Those items of each bottom whose selector, the last bottom, is not 0.

    bottom[i]   (n, …)
    bottom[-1]  (n, 1, …)
    top[i]      (k, …), of as many items as are selected, perhaps none; n before the first pass
    """

    bottoms = at_least(2)
    tops = at_least(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """One top for each bottom but the selector."""
        if len(tops) != len(bottoms) - 1:
            raise NetError(
                f"takes one top for each bottom but the last, got {len(tops)} for {len(bottoms)} "
                "bottoms",
                fix="add or remove top lines",
            )
        for top, bottom in zip(tops, bottoms, strict=False):
            top.reshape(bottom.shape)
        self._chosen: F32 = np.zeros(0, np.float32)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check the batch sizes; what is selected decides the tops'."""
        selector = bottoms[-1]
        if not selector.shape or selector.size(1) != 1:
            raise ShapeError(
                f"selector {selector!r} must hold one value per item", fix="feed shape (n)"
            )
        for bottom in bottoms[:-1]:
            if bottom.shape[:1] != selector.shape[:1]:
                raise ShapeError(
                    f"bottom {bottom!r} and selector {selector!r} differ in the number of items",
                    fix="feed one selector value per item",
                )
        self._rows = [Rows(self.engine, bottom) for bottom in bottoms[:-1]]

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Shape the tops, pick."""
        self._chosen = np.flatnonzero(bottoms[-1].data).astype(np.float32)
        for rows, bottom, top in zip(self._rows, bottoms, tops, strict=False):
            top.reshape((self._chosen.size, *bottom.shape[1:]))
            rows.pick(self._chosen, bottom.data, top.data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """0 for items left out. Raises NetError if the selector is asked for a gradient."""
        if propagate_down[-1]:
            raise NetError(
                f"cannot backpropagate to its selector {bottoms[-1]!r}",
                fix="set propagate_down: false for the selector",
            )
        for i, rows in enumerate(self._rows):
            if propagate_down[i]:
                rows.put_back(self._chosen, tops[i].diff, bottoms[i].diff)

    def allow_force_backward(self, bottom: int) -> bool:
        """Not to the selector."""
        return bottom < len(self._rows)
