"""N-dimensional convolution (cross-correlation, as in Caffe) and its two gradients.

Deconvolution is the same three operators with the roles of source and destination exchanged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.operators.base import Operand, Operator

__all__ = ["ConvBackwardData", "ConvBackwardWeights", "ConvForward", "ConvGeometry"]


@dataclass(frozen=True, slots=True)
class ConvGeometry:
    """Sizes of a convolution; the tuples have one entry per spatial axis.

    src (n, ic, *in_size)   dst (n, oc, *out_size)   weights (oc, ic / groups, *kernel)   bias (oc)
    """

    n: int
    ic: int
    oc: int
    in_size: Shape
    kernel: Shape
    stride: Shape
    pad: Shape
    dilation: Shape
    groups: int = 1

    @property
    def extent(self) -> Shape:
        """Input positions one window spans: dilation * (kernel - 1) + 1."""
        return tuple(d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True))

    @property
    def out_size(self) -> Shape:
        """Caffe's sizes: the division truncates toward zero, so a window just too large gives 1."""
        sizes = zip(self.in_size, self.pad, self.extent, self.stride, strict=True)
        return tuple(int((i + 2 * p - e) / s) + 1 for i, p, e, s in sizes)

    @property
    def src(self) -> Shape:
        """Shape of the input."""
        return (self.n, self.ic, *self.in_size)

    @property
    def dst(self) -> Shape:
        """Shape of the output."""
        return (self.n, self.oc, *self.out_size)

    @property
    def weights(self) -> Shape:
        """Shape of the weights."""
        return (self.oc, self.ic // self.groups, *self.kernel)

    @property
    def window(self) -> int:
        """Products per output element: ic / groups * prod(kernel)."""
        return self.ic // self.groups * math.prod(self.kernel)

    @property
    def macs(self) -> int:
        """Multiply-adds of one direction."""
        return math.prod(self.dst) * self.window

    def taps(self) -> Iterator[tuple[slice, ...]]:
        """For each kernel position, in order, the part of the padded input that outputs meet."""
        for tap in itertools.product(*(range(k) for k in self.kernel)):
            starts = [t * d for t, d in zip(tap, self.dilation, strict=True)]
            yield tuple(
                slice(a, a + s * (o - 1) + 1, s)
                for a, s, o in zip(starts, self.stride, self.out_size, strict=True)
            )

    def by_tap(self, weights: Array) -> Array:
        """Weights as (oc, ic / groups, kernel positions)."""
        return weights.reshape(self.oc, self.ic // self.groups, -1)

    def padded(self, src: Array) -> Array:
        """`src` with zeros around it, wide enough for every tap of every output."""
        widths = [
            (p, max(p, (o - 1) * s + e - i - p))
            for p, o, s, e, i in zip(
                self.pad, self.out_size, self.stride, self.extent, self.in_size, strict=True
            )
        ]
        return np.pad(src.reshape(self.src), [(0, 0), (0, 0), *widths])

    def unpadded(self, padded: Array) -> Array:
        """The part of a padded array that is the input."""
        inner = tuple(slice(p, p + i) for p, i in zip(self.pad, self.in_size, strict=True))
        return padded[(slice(None), slice(None), *inner)]

    def group_slices(self) -> Iterator[tuple[slice, slice]]:
        """(input channels, output channels) of each group."""
        a, b = self.ic // self.groups, self.oc // self.groups
        for g in range(self.groups):
            yield slice(g * a, (g + 1) * a), slice(g * b, (g + 1) * b)


@dataclass(frozen=True, slots=True)
class ConvForward(Operator):
    """dst[n, o, p] = bias[o] + sum over i, t of weights[o, i, t] * src[n, i, p s - pad + t d]."""

    geometry: ConvGeometry
    has_bias: bool = True

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, weights and, with has_bias, bias."""
        g = self.geometry
        both = (Operand("src", g.src), Operand("weights", g.weights))
        return (*both, Operand("bias", (g.oc,))) if self.has_bias else both

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", self.geometry.dst),)

    @property
    def flops(self) -> int:
        """Two per multiply-add, one per output element for the bias."""
        return 2 * self.geometry.macs + (math.prod(self.geometry.dst) if self.has_bias else 0)

    @property
    def terms(self) -> int:
        """Products per output element, and the bias."""
        return self.geometry.window + 1

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sum over kernel positions of one matrix product each."""
        g = self.geometry
        src, weights = g.padded(inputs[0]), g.by_tap(inputs[1])
        dst = np.zeros(g.dst, np.float32)
        for t, window in enumerate(g.taps()):
            for ci, co in g.group_slices():
                part = src[(slice(None), ci, *window)]
                dst[:, co] += np.einsum("oi,ni...->no...", weights[co, :, t], part)
        if self.has_bias:
            dst += inputs[2].reshape(-1, *(1 for _ in g.in_size))
        return (dst,)


@dataclass(frozen=True, slots=True)
class ConvBackwardData(Operator):
    """Gradient to the input: each diff_dst element scattered back through its window."""

    geometry: ConvGeometry

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """weights, diff_dst."""
        g = self.geometry
        return (Operand("weights", g.weights), Operand("diff_dst", g.dst))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", self.geometry.src),)

    @property
    def flops(self) -> int:
        """Two per multiply-add."""
        return 2 * self.geometry.macs

    @property
    def terms(self) -> int:
        """Output channels of a group times kernel positions, at most."""
        g = self.geometry
        return g.oc // g.groups * math.prod(g.kernel)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Sum over kernel positions of one matrix product each."""
        g = self.geometry
        weights, diff_dst = g.by_tap(inputs[0]), inputs[1].reshape(g.dst)
        diff_src = g.padded(np.zeros(g.src, np.float32))
        for t, window in enumerate(g.taps()):
            for ci, co in g.group_slices():
                part = np.einsum("oi,no...->ni...", weights[co, :, t], diff_dst[:, co])
                diff_src[(slice(None), ci, *window)] += part
        return (g.unpadded(diff_src),)


@dataclass(frozen=True, slots=True)
class ConvBackwardWeights(Operator):
    """Gradients to the weights and, with has_bias, the bias; added to what is there."""

    geometry: ConvGeometry
    has_bias: bool = True
    accumulate: bool = True

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, diff_dst."""
        g = self.geometry
        return (Operand("src", g.src), Operand("diff_dst", g.dst))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_weights and, with has_bias, diff_bias."""
        g = self.geometry
        weights = Operand("diff_weights", g.weights, accumulate=self.accumulate)
        bias = Operand("diff_bias", (g.oc,), accumulate=self.accumulate)
        return (weights, bias) if self.has_bias else (weights,)

    @property
    def flops(self) -> int:
        """Two per multiply-add, one per output element for the bias."""
        return 2 * self.geometry.macs + (math.prod(self.geometry.dst) if self.has_bias else 0)

    @property
    def terms(self) -> int:
        """Images times output positions."""
        return self.geometry.n * math.prod(self.geometry.out_size)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One contraction over images and positions per kernel position."""
        g = self.geometry
        src, diff_dst = g.padded(inputs[0]), inputs[1].reshape(g.dst)
        diff_weights, positions = g.by_tap(np.zeros(g.weights, np.float32)), math.prod(g.out_size)
        for t, window in enumerate(g.taps()):
            for ci, co in g.group_slices():
                part = src[(slice(None), ci, *window)].reshape(g.n, ci.stop - ci.start, positions)
                diff = diff_dst[:, co].reshape(g.n, co.stop - co.start, positions)
                diff_weights[co, :, t] = np.einsum("nop,nip->oi", diff, part)
        diff_weights = diff_weights.reshape(g.weights)
        if not self.has_bias:
            return (diff_weights,)
        axes = (0, *range(2, diff_dst.ndim))
        return (diff_weights, diff_dst.sum(axis=axes))
