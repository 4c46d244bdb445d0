"""One pooling, planned: what Pooling does once and SPP on each level."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.engine.engine import Engine
from swcaffe.layers._plans import Deferred
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
    PoolGeometry,
)
from swcaffe.operators.stochastic_pooling import StochasticPoolForward
from swcaffe.proto import messages

__all__ = ["Pool"]

KINDS = messages.PoolingParameter


class Pool:
    """Maximum, mean or a random draw of each window, and the gradient.

    index  where each value came from, row * width + column; of MAX, and of STOCHASTIC in training
    """

    def __init__(self, engine: Engine, geometry: PoolGeometry, method: int, training: bool) -> None:
        """`method` is a PoolMethod of pooling_param."""
        g = geometry
        self._draws = method == KINDS.STOCHASTIC and training
        self.index = aligned_zeros((0,) if method == KINDS.AVE else g.dst, np.int32)
        self._noise = aligned_zeros(g.dst if self._draws else (0,))
        self._averages = method == KINDS.AVE
        self._located = method == KINDS.MAX
        if method == KINDS.AVE:
            self._forward = engine.plan(AvePoolForward(g))
            self._backward = Deferred(engine, AvePoolBackward(g))
        elif method == KINDS.MAX:
            self._forward = engine.plan(MaxPoolForward(g))
            self._backward = Deferred(engine, MaxPoolBackward(g))
        else:
            self._forward = engine.plan(StochasticPoolForward(g, training))
            self._backward = Deferred(engine, MaxPoolBackward(g))

    def forward(self, src: F32, dst: F32, rng: Callable[[str], np.random.Generator]) -> None:
        """Pool; `rng` is the layer's."""
        if self._draws:
            rng("pooling").random(dtype=np.float32, out=self._noise)
            self._forward(src, self._noise, dst, self.index)
        elif self._located:
            self._forward(src, dst, self.index)
        else:
            self._forward(src, dst)

    def backward(self, diff_dst: F32, diff_src: F32) -> None:
        """Give each gradient back to where its value came from."""
        if self._averages:
            self._backward(diff_dst, diff_src)
        else:
            self._backward(self.index, diff_dst, diff_src)
