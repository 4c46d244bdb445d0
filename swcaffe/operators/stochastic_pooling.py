"""Stochastic pooling (Zeiler and Fergus 2013) with Caffe's windows; its gradient is MAX's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import Array
from swcaffe.operators.base import Operand, Operator
from swcaffe.operators.pooling import PoolGeometry

__all__ = ["StochasticPoolForward"]


@dataclass(frozen=True, slots=True)
class StochasticPoolForward(Operator):
    """One element of each window, drawn with probability proportional to its value.

    training    the first element in row-major order at which the running sum reaches
                (1 - noise) * sum, and its index row * width + column; noise uniform in [0, 1)
    else        the expectation sum of squares / sum, 0 where the sum is not positive
    """

    geometry: PoolGeometry
    training: bool

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src and, in training, noise."""
        src = Operand("src", self.geometry.src)
        return (src, Operand("noise", self.geometry.dst)) if self.training else (src,)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst and, in training, index (int32)."""
        dst = Operand("dst", self.geometry.dst)
        return (dst, Operand("index", self.geometry.dst, "int32")) if self.training else (dst,)

    @property
    def flops(self) -> int:
        """A sum, and as much again for the draw or the squares."""
        return 2 * self.geometry.flops

    @property
    def terms(self) -> int:
        """Window elements."""
        return self.geometry.kernel[0] * self.geometry.kernel[1]

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One numpy computation per window position."""
        g = self.geometry
        planes = inputs[0].reshape(g.n * g.c, *g.in_size)
        dst = np.zeros((g.n * g.c, *g.out_size), np.float32)
        index = np.zeros(dst.shape, np.int32)
        noise = inputs[1].reshape(dst.shape) if self.training else dst
        for oh, ow in np.ndindex(*g.out_size):
            (h0, h1, _), (w0, w1, _) = g.window(0, oh), g.window(1, ow)
            part = planes[:, h0:h1, w0:w1].reshape(len(planes), -1)
            if not self.training:
                total, squares = part.sum(axis=1), np.square(part).sum(axis=1)
                safe = np.where(total > 0, total, np.float32(1))
                dst[:, oh, ow] = np.where(total > 0, squares / safe, np.float32(0))
                continue
            running = np.cumsum(part, axis=1)
            threshold = (1 - noise[:, oh, ow]) * running[:, -1]
            place = np.argmax(running >= threshold[:, None], axis=1)
            dst[:, oh, ow] = part[np.arange(len(part)), place]
            index[:, oh, ow] = (h0 + place // (w1 - w0)) * g.in_size[1] + w0 + place % (w1 - w0)
        return (dst.reshape(g.dst), index.reshape(g.dst)) if self.training else (dst,)
