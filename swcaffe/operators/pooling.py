"""Two-dimensional pooling with Caffe's windows, and its gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = [
    "AvePoolBackward",
    "AvePoolForward",
    "MaxPoolBackward",
    "MaxPoolForward",
    "PoolGeometry",
]

LOWEST = np.float32(-3.4028234663852886e38)  # -FLT_MAX: what Caffe's maximum starts from


@dataclass(frozen=True, slots=True)
class PoolGeometry:
    """Sizes of a pooling: src (n, c, *in_size), dst (n, c, *out_size); tuples are (rows, cols)."""

    n: int
    c: int
    in_size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    round_up: bool = True

    @property
    def out_size(self) -> tuple[int, int]:
        """Ceil (or floor) of (in + 2 pad - kernel) / stride, plus 1; no window starts past it."""
        h, w = (self._out(axis) for axis in (0, 1))
        return h, w

    def _out(self, axis: int) -> int:
        size, kernel = self.in_size[axis], self.kernel[axis]
        stride, pad = self.stride[axis], self.pad[axis]
        steps = (size + 2 * pad - kernel) / stride
        out = (math.ceil(steps) if self.round_up else math.floor(steps)) + 1
        if any(self.pad) and (out - 1) * stride >= size + pad:
            out -= 1
        return out

    def window(self, axis: int, position: int) -> tuple[int, int, int]:
        """(first, end, padded length) of window `position`, the first two clipped to the image."""
        start = position * self.stride[axis] - self.pad[axis]
        end = min(start + self.kernel[axis], self.in_size[axis] + self.pad[axis])
        return max(start, 0), min(end, self.in_size[axis]), end - start

    @property
    def src(self) -> Shape:
        """Shape of the input."""
        return (self.n, self.c, *self.in_size)

    @property
    def dst(self) -> Shape:
        """Shape of the output."""
        return (self.n, self.c, *self.out_size)

    @property
    def flops(self) -> int:
        """One comparison or addition per window element."""
        return math.prod(self.dst) * math.prod(self.kernel)


@dataclass(frozen=True, slots=True)
class MaxPoolForward(Operator):
    """Largest value of each window; the first in row-major order wins a tie, NaN never wins.

    index holds row * width + column within the channel's plane, -1 where nothing beat -FLT_MAX.
    """

    geometry: PoolGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", self.geometry.src),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst, index (int32)."""
        dst = self.geometry.dst
        return (Operand("dst", dst), Operand("index", dst, "int32"))

    @property
    def flops(self) -> int:
        """One comparison per window element."""
        return self.geometry.flops

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One numpy argmax per window position."""
        g = self.geometry
        src = inputs[0].reshape(g.n * g.c, *g.in_size)
        dst = np.full((g.n * g.c, *g.out_size), LOWEST, np.float32)
        index = np.full(dst.shape, -1, np.int32)
        for oh, ow in np.ndindex(*g.out_size):
            (h0, h1, _), (w0, w1, _) = g.window(0, oh), g.window(1, ow)
            if h0 >= h1 or w0 >= w1:
                continue
            part = src[:, h0:h1, w0:w1].reshape(len(src), -1)
            part = np.where(np.isnan(part), LOWEST, part)
            best = part.argmax(axis=1)
            value = part[np.arange(len(src)), best]
            place = (h0 + best // (w1 - w0)) * g.in_size[1] + w0 + best % (w1 - w0)
            dst[:, oh, ow] = value
            index[:, oh, ow] = np.where(value > LOWEST, place, -1)
        return dst.reshape(g.dst), index.reshape(g.dst)


@dataclass(frozen=True, slots=True)
class MaxPoolBackward(Operator):
    """diff_src[index] += diff_dst, starting from zero; index -1 takes nothing."""

    geometry: PoolGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """index (int32), diff_dst."""
        dst = self.geometry.dst
        return (Operand("index", dst, "int32"), Operand("diff_dst", dst))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.geometry.src),)

    @property
    def flops(self) -> int:
        """One addition per output element."""
        return math.prod(self.geometry.dst)

    @property
    def terms(self) -> int:
        """Windows that may share one maximum."""
        return math.prod(self.geometry.kernel)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """numpy's unbuffered scatter-add."""
        g = self.geometry
        index = inputs[0].reshape(g.n * g.c, -1)
        diff_dst = inputs[1].reshape(g.n * g.c, -1)
        diff_src = np.zeros((g.n * g.c, math.prod(g.in_size)), np.float32)
        plane, place = np.nonzero(index >= 0)
        np.add.at(diff_src, (plane, index[plane, place]), diff_dst[plane, place])
        return (diff_src.reshape(g.src),)


@dataclass(frozen=True, slots=True)
class AvePoolForward(Operator):
    """Mean over each window; zeros of the padding count, positions beyond in + pad do not."""

    geometry: PoolGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", self.geometry.src),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", self.geometry.dst),)

    @property
    def flops(self) -> int:
        """One addition per window element."""
        return self.geometry.flops

    @property
    def terms(self) -> int:
        """Window elements."""
        return math.prod(self.geometry.kernel)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One numpy sum per window position."""
        g = self.geometry
        src, dst = inputs[0].reshape(g.src), np.zeros(g.dst, np.float32)
        for oh, ow in np.ndindex(*g.out_size):
            (h0, h1, rows), (w0, w1, cols) = g.window(0, oh), g.window(1, ow)
            dst[:, :, oh, ow] = src[:, :, h0:h1, w0:w1].sum(axis=(2, 3)) / np.float32(rows * cols)
        return (dst,)


@dataclass(frozen=True, slots=True)
class AvePoolBackward(Operator):
    """Each diff_dst element spread evenly over its window, with the forward pass's divisor."""

    geometry: PoolGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """diff_dst."""
        return (Operand("diff_dst", self.geometry.dst),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.geometry.src),)

    @property
    def flops(self) -> int:
        """One addition per window element."""
        return self.geometry.flops

    @property
    def terms(self) -> int:
        """Windows over one input element."""
        return math.prod(self.geometry.kernel)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One broadcast addition per window position."""
        g = self.geometry
        diff_dst, diff_src = inputs[0].reshape(g.dst), np.zeros(g.src, np.float32)
        for oh, ow in np.ndindex(*g.out_size):
            (h0, h1, rows), (w0, w1, cols) = g.window(0, oh), g.window(1, ow)
            share = diff_dst[:, :, oh, ow] / np.float32(rows * cols)
            diff_src[:, :, h0:h1, w0:w1] += share[:, :, None, None]
        return (diff_src,)
