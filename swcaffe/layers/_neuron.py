"""Base of activations without weights: one elementwise operator forward, one backward."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.errors import ParameterError
from swcaffe.layers._plans import Deferred
from swcaffe.net.layer import Blobs, Layer, exactly
from swcaffe.operators.activation import ActivationBackward, ActivationForward, ActivationKind
from swcaffe.operators.layout import Concat

__all__ = ["Neuron"]

KEEP_SIGN = {"ReLU", "Dropout"}
"""Layers after which a rectified value still tells its sign, or has no gradient to scale."""


class Neuron(Layer):
    """top = f(bottom), of the same shape; may work in place where `alpha` allows it."""

    bottoms = exactly(1)
    tops = exactly(1)
    in_place = True

    @abstractmethod
    def kind(self) -> tuple[ActivationKind, float]:
        """The operator's kind and alpha."""

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read parameters; in place, the sign of the input must be seen in the output."""
        self._kind, self._alpha = self.kind()
        if self._alpha < 0 and tops[0] is bottoms[0]:
            raise ParameterError(
                f"slope or alpha {self._alpha:g} is negative: in place, the gradient could not "
                "tell on which side of 0 an input was",
                fix="give the top a name of its own",
            )

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape."""
        tops[0].reshape(bottoms[0].shape)
        what = (self._kind, bottoms[0].count, self._alpha)
        self._forward = self.engine.plan(ActivationForward(*what))
        self._backward = Deferred(self.engine, ActivationBackward(*what))
        self._kept: F32 | None = None
        if self._top_is_lost(bottoms, tops):
            self._kept = aligned_zeros(bottoms[0].shape)
            self._keep = self.engine.plan(Concat(1, (bottoms[0].count,)))

    def _top_is_lost(self, bottoms: Blobs, tops: Blobs) -> bool:
        """Whether a later layer overwrites what the gradient reads."""
        if self._kind == "relu":
            return tops[0] is bottoms[0] and not KEEP_SIGN.issuperset(self.context.overwriters)
        return bool(self.context.overwriters)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Apply f; keep the result if it will be overwritten."""
        self._forward(bottoms[0].data, tops[0].data)
        if self._kept is not None:
            self._keep(tops[0].data, self._kept)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Apply f'."""
        if not propagate_down[0]:
            return
        y = tops[0].data if self._kept is None else self._kept
        x = y if tops[0] is bottoms[0] else bottoms[0].data
        self._backward(x, y, tops[0].diff, bottoms[0].diff)
