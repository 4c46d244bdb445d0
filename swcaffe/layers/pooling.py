"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from swcaffe.errors import NetError, ParameterError, ShapeError
from swcaffe.layers._pool import Pool
from swcaffe.net.layer import LAYERS, Blobs, Layer, Phase, between, exactly
from swcaffe.operators.pooling import PoolGeometry
from swcaffe.proto import messages
from swcaffe.proto.messages import Message

__all__ = ["Pooling"]


@LAYERS.register("Pooling")
class Pooling(Layer):
    """Maximum, mean or a random draw of each window.

    bottom[0]  (n, c, h, w)
    top[0]     (n, c, oh, ow)    sizes rounded up, or down with round_mode FLOOR
    top[1]     (n, c, oh, ow)    MAX only: where the maximum was, row * w + column
    Reads pooling_param. STOCHASTIC follows Zeiler and Fergus 2013, as Caffe's GPU code: in TRAIN an
    element drawn with probability proportional to its value, in TEST the expectation.
    """

    bottoms = exactly(1)
    tops = between(1, 2)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read pooling_param and check it."""
        param = self.param.pooling_param
        self.pool: int = param.pool
        self.is_global: bool = param.global_pooling
        floor = param.round_mode == messages.PoolingParameter.FLOOR or not param.ceil_mode
        self.round_up = not floor
        self.pad = _pair(param, "pad", "pad", 0)
        self.stride = _pair(param, "stride", "stride", 1)
        self.kernel = (0, 0) if self.is_global else _pair(param, "kernel_size", "kernel", None)
        self._check(param, tops)

    def _check(self, param: Message, tops: Blobs) -> None:
        if self.is_global:
            given = [f for f in ("kernel_size", "kernel_h", "kernel_w") if param.HasField(f)]
            if given:
                raise ParameterError(f"{given[0]} is given with global_pooling", fix="remove one")
            if self.pad != (0, 0) or self.stride != (1, 1):
                raise ParameterError(
                    "global_pooling needs pad 0 and stride 1", fix="remove pad and stride"
                )
        elif min(self.kernel) < 1:
            raise ParameterError(f"kernel {self.kernel} must be positive", fix="give 1 or more")
        if min(self.stride) < 1:
            raise ParameterError(f"stride {self.stride} must be positive", fix="give 1 or more")
        if any(self.pad):
            if self.pool == messages.PoolingParameter.STOCHASTIC:
                raise ParameterError(f"pad {self.pad} with STOCHASTIC pooling", fix="remove pad")
            if any(p >= k for p, k in zip(self.pad, self.kernel, strict=True)):
                raise ParameterError(
                    f"pad {self.pad} must be less than the kernel {self.kernel}", fix="lower pad"
                )
        if len(tops) == 2 and self.pool != messages.PoolingParameter.MAX:
            raise NetError(
                "takes 1 top(s) unless pool is MAX, got 2",
                fix="remove the second top, or set pool: MAX",
            )

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Set the tops' shapes; a global kernel follows the image."""
        shape = bottoms[0].shape
        if len(shape) != 4:
            raise ShapeError(
                f"bottom {bottoms[0]!r} must have 4 axes, (n, c, h, w)", fix="feed (n, c, h, w)"
            )
        n, c, h, w = shape
        kernel = (h, w) if self.is_global else self.kernel
        g = PoolGeometry(n, c, (h, w), kernel, self.stride, self.pad, self.round_up)
        if min(g.out_size) < 1:
            raise ShapeError(
                f"kernel {kernel} with pad {self.pad} leaves {g.out_size} of bottom {bottoms[0]!r}",
                fix="lower kernel_size, raise pad, or feed larger images",
            )
        for top in tops:
            top.reshape(g.dst)
        self._pool = Pool(self.engine, g, self.pool, self.phase == Phase.TRAIN)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Pool; remember where each value came from, if that is one place."""
        self._pool.forward(bottoms[0].data, tops[0].data, self.rng)
        if len(tops) == 2:
            np.copyto(tops[1].data, self._pool.index, casting="same_kind")

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Give each gradient back to where its value came from."""
        if propagate_down[0]:
            self._pool.backward(tops[0].diff, bottoms[0].diff)


def _pair(param: Message, square: str, stem: str, default: int | None) -> tuple[int, int]:
    """(rows, columns) given as one number for both, or as stem_h and stem_w."""
    sides = [param.HasField(f"{stem}_{side}") for side in "hw"]
    if param.HasField(square):
        if any(sides):
            raise ParameterError(
                f"both {square} and {stem}_h or {stem}_w are given", fix="keep one of the spellings"
            )
        return (getattr(param, square),) * 2
    if all(sides):
        return (getattr(param, f"{stem}_h"), getattr(param, f"{stem}_w"))
    if any(sides) or default is None:
        raise ParameterError(
            f"{square}, or both {stem}_h and {stem}_w, must be given",
            fix="set one or the other in pooling_param",
        )
    return (default, default)
