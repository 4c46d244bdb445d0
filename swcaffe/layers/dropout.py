"""Dropout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import aligned_zeros
from swcaffe.errors import ParameterError
from swcaffe.net.layer import LAYERS, Blobs, Layer, Phase, exactly
from swcaffe.operators.eltwise import Dropout as DropoutOperator
from swcaffe.operators.layout import Concat

__all__ = ["Dropout"]


@LAYERS.register("Dropout")
class Dropout(Layer):
    """In TRAIN top = x / (1 - dropout_ratio) with that chance, else 0; in TEST top = x.

    Reads dropout_param. The draws of each forward pass are a function of (seed, layer, pass).
    """

    bottoms = exactly(1)
    tops = exactly(1)
    in_place = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read dropout_ratio."""
        self.ratio: float = self.param.dropout_param.dropout_ratio
        if not 0 <= self.ratio < 1:
            raise ParameterError(
                f"dropout_ratio {self.ratio:g} must be at least 0 and below 1",
                fix="choose a ratio in [0, 1)",
            )

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape; one draw per element."""
        count = bottoms[0].count
        tops[0].reshape(bottoms[0].shape)
        if self.phase == Phase.TRAIN:
            self._apply = self.engine.plan(DropoutOperator(count, self.ratio))
            self._noise = aligned_zeros((count,))
        else:
            self._copy = self.engine.plan(Concat(1, (count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Draw and drop."""
        if self.phase == Phase.TRAIN:
            self.rng("noise").random(dtype=np.float32, out=self._noise)
            self._apply(bottoms[0].data, self._noise, tops[0].data)
        elif tops[0] is not bottoms[0]:
            self._copy(bottoms[0].data, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """The same on gradients."""
        if not propagate_down[0]:
            return
        if self.phase == Phase.TRAIN:
            self._apply(tops[0].diff, self._noise, bottoms[0].diff)
        elif tops[0] is not bottoms[0]:
            self._copy(tops[0].diff, bottoms[0].diff)
