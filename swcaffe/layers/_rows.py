"""Items of a batch picked by number, and their gradients put back."""

from __future__ import annotations

from swcaffe.arrays import F32
from swcaffe.engine.engine import Engine
from swcaffe.net.blob import Blob
from swcaffe.operators.embed import EmbedBackward, EmbedForward

__all__ = ["Rows"]


class Rows:
    """The items of one blob as the rows of a table: its look-up and the gradient to it.

    Each call may pick another number of items; the engine keeps a plan for every number it met.
    """

    def __init__(self, engine: Engine, blob: Blob) -> None:
        """`blob` (n, …) fixes the sizes."""
        self._engine = engine
        self._rows, self._width = blob.shape[0], blob.size(1)

    def pick(self, index: F32, src: F32, dst: F32) -> None:
        """dst[i] = src[index[i]]."""
        if dst.size:
            op = EmbedForward(index.size, self._rows, self._width, has_bias=False)
            self._engine.plan(op)(index, src, dst)

    def put_back(self, index: F32, diff_dst: F32, diff_src: F32) -> None:
        """diff_src[index[i]] = sum of diff_dst[i]; 0 for items that were not picked."""
        diff_src.fill(0)
        if diff_dst.size:
            op = EmbedBackward(index.size, self._rows, self._width)
            self._engine.plan(op)(index, diff_dst, diff_src)
