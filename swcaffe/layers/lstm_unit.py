"""LSTMUnit."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import aligned_zeros
from swcaffe.errors import NetError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly
from swcaffe.operators.recurrent import LstmUnitBackward, LstmUnitForward

__all__ = ["LSTMUnit"]


@LAYERS.register("LSTMUnit")
class LSTMUnit(Layer):
    """One step of LSTM cells whose gates are given before activation, in the order i f o g.

    bottoms  c (1, n, d), gates (1, n, 4d), cont (1, n)
    tops     c, h (1, n, d)
    """

    bottoms = exactly(3)
    tops = exactly(2)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """No parameters."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check the shapes."""
        c, gates, cont = bottoms
        if len(c.shape) != 3 or c.shape[0] != 1:
            raise ShapeError(
                f"cell {c!r} must have shape (1, n, d)", fix="feed one step: (1, n, d)"
            )
        _, n, d = c.shape
        if gates.shape != (1, n, 4 * d) or cont.shape != (1, n):
            raise ShapeError(
                f"gates {gates!r} and cont {cont!r} must have shapes {(1, n, 4 * d)} and {(1, n)}",
                fix="feed the four gates side by side, and one cont for each stream",
            )
        for top in tops:
            top.reshape(c.shape)
        self._spare = aligned_zeros((n, 4 * d))
        self._forward = self.engine.plan(LstmUnitForward(n, d))
        self._backward = Deferred(self.engine, LstmUnitBackward(n, d))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """One step."""
        self._forward(*(bottom.data for bottom in bottoms), *(top.data for top in tops))

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Gradients of cell and gates. Raises NetError if cont is asked for one."""
        if propagate_down[2]:
            raise NetError(
                f"cannot backpropagate to cont {bottoms[2]!r}",
                fix="set propagate_down: false for cont",
            )
        if not any(propagate_down):
            return
        c, gates, _ = bottoms
        spare = self._spare.reshape(-1)
        diff_c = c.diff if propagate_down[0] else spare[: c.count]
        diff_gates = gates.diff if propagate_down[1] else spare
        values = (bottom.data for bottom in bottoms)
        self._backward(*values, *(top.diff for top in tops), diff_c, diff_gates)

    def allow_force_backward(self, bottom: int) -> bool:
        """Not to cont."""
        return bottom != 2
