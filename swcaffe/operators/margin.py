"""Losses that are 0 beyond a margin: hinge and contrastive. Totals are sums in double."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import F32, Array
from swcaffe.operators.base import Operand, Operator

__all__ = ["ContrastiveBackward", "ContrastiveForward", "HingeBackward", "HingeForward"]

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)


def _signs(labels: Array, classes: int) -> F32:
    """(items, classes): -1 at the label, else 1."""
    own = labels.reshape(-1, 1).astype(np.int64) == np.arange(classes)
    return np.where(own, -ONE, ONE)


@dataclass(frozen=True, slots=True)
class HingeForward(Operator):
    """total = sum of m or, with `squared`, m^2, where m = max(0, 1 + t x).

    t is -1 for the score of the label's class and 1 for all others.
    """

    items: int
    classes: int
    squared: bool = False

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src (items, classes), labels (items)."""
        return (Operand("src", (self.items, self.classes)), Operand("labels", (self.items,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """total (1) (float64)."""
        return (Operand("total", (1,), "float64"),)

    @property
    def flops(self) -> int:
        """Product, addition, maximum, addition, and the square if any."""
        return (4 + self.squared) * self.items * self.classes

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        src = inputs[0].reshape(self.items, self.classes)
        margin = np.maximum(ZERO, ONE + _signs(inputs[1], self.classes) * src).astype(np.float64)
        return ((margin**2 if self.squared else margin).sum().reshape(1),)


@dataclass(frozen=True, slots=True)
class HingeBackward(Operator):
    """diff_src = factor * t where m > 0, else 0; with `squared` factor * 2 t m."""

    items: int
    classes: int
    squared: bool = False

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src (items, classes), labels (items), factor (1)."""
        src = Operand("src", (self.items, self.classes))
        return (src, Operand("labels", (self.items,)), Operand("factor", (1,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", (self.items, self.classes)),)

    @property
    def flops(self) -> int:
        """Margin 3, slope 2."""
        return 5 * self.items * self.classes

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        src, factor = inputs[0].reshape(self.items, self.classes), inputs[2].reshape(())
        signs = _signs(inputs[1], self.classes)
        margin = np.maximum(ZERO, ONE + signs * src)
        slope = TWO * margin if self.squared else np.sign(margin)
        return (factor * signs * slope,)


@dataclass(frozen=True, slots=True)
class ContrastiveForward(Operator):
    """difference = a - b, and the sum of each pair's loss (Hadsell, Chopra and LeCun 2006).

    With d the Euclidean length of the difference, a pair whose `similar`, truncated toward zero, is
    not 0 costs d^2, any other max(0, margin - d)^2 or, as `legacy`, max(0, margin - d^2).
    """

    items: int
    width: int
    margin: float
    legacy: bool = False

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """a, b (items, width), similar (items)."""
        pair = (Operand("a", (self.items, self.width)), Operand("b", (self.items, self.width)))
        return (*pair, Operand("similar", (self.items,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """difference (items, width); total (1) (float64)."""
        return (Operand("difference", (self.items, self.width)), Operand("total", (1,), "float64"))

    @property
    def flops(self) -> int:
        """Difference, square, addition per element; root, difference, square, addition a pair."""
        return 3 * self.items * self.width + 4 * self.items

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        a, b = (side.reshape(self.items, self.width) for side in inputs[:2])
        difference = a - b
        squares = np.square(difference, dtype=np.float64).sum(axis=1)
        apart = np.maximum(0, self.margin - (squares if self.legacy else np.sqrt(squares)))
        similar = np.trunc(inputs[2].reshape(-1)) != 0
        losses = np.where(similar, squares, apart if self.legacy else apart**2)
        return (difference, losses.sum().reshape(1))


@dataclass(frozen=True, slots=True)
class ContrastiveBackward(Operator):
    """Gradient to a, or with -factor to b: factor * slope * difference of each pair.

    The slope is 1 for similar pairs and 0 for others beyond the margin; within it
    -(margin - d) / (d + 1e-4), which is finite for d = 0 as well, or -1 as `legacy`.
    """

    items: int
    width: int
    margin: float
    legacy: bool = False

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """difference (items, width), similar (items), factor (1)."""
        difference = Operand("difference", (self.items, self.width))
        return (difference, Operand("similar", (self.items,)), Operand("factor", (1,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff (items, width)."""
        return (Operand("diff", (self.items, self.width)),)

    @property
    def flops(self) -> int:
        """Square, addition, product per element; six a pair."""
        return 3 * self.items * self.width + 6 * self.items

    @property
    def terms(self) -> int:
        """width."""
        return self.width

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        difference, factor = inputs[0].reshape(self.items, self.width), inputs[2].reshape(())
        margin, squares = np.float32(self.margin), np.square(difference).sum(axis=1)
        if self.legacy:
            apart = np.where(margin > squares, -ONE, ZERO)
        else:
            d = np.sqrt(squares)
            apart = np.where(margin > d, -(margin - d) / (d + np.float32(1e-4)), ZERO)
        slope = np.where(np.trunc(inputs[1].reshape(-1)) != 0, ONE, apart)
        return (factor * slope[:, None] * difference,)
