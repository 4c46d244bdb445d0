"""BatchNorm."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import F32, aligned_zeros
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.layers._weights import WeightedLayer
from swcaffe.net.filler import constant
from swcaffe.net.layer import LAYERS, Blobs, Phase, exactly
from swcaffe.operators.batch_norm import BatchNormBackward, BatchNormForward
from swcaffe.operators.layout import Concat

__all__ = ["BatchNorm"]

log = logging.getLogger(__name__)


@LAYERS.register("BatchNorm")
class BatchNorm(WeightedLayer):
    """top = (x - mean) / sqrt(variance + eps) per channel (Ioffe and Szegedy 2015).

    bottom[0], top[0]  (n, c, …)
    blobs  running sums of mean (c) and unbiased variance (c), and their weight (1): not learned
    Reads batch_norm_param. Statistics are those of the batch in TRAIN, the running ones in TEST;
    use_global_stats decides for both phases if given. Scale and shift are a Scale layer's.
    """

    bottoms = exactly(1)
    tops = exactly(1)
    in_place = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Make the three blobs and keep them from learning."""
        param = self.param.batch_norm_param
        given = param.HasField("use_global_stats")
        self.of_batch = not (param.use_global_stats if given else self.phase == Phase.TEST)
        if self.of_batch and self.phase == Phase.TEST:
            log.warning(
                'layer "%s" (BatchNorm): use_global_stats is false in TEST, so results depend on '
                "what else is in the batch, and testing changes the running statistics",
                self.name,
            )
        if len(bottoms[0].shape) < 2:
            raise ShapeError(
                f"bottom {bottoms[0]!r} must have at least 2 axes, (n, c, …)", fix="feed (n, c, …)"
            )
        self.channels = bottoms[0].shape[1]
        self.eps: float = param.eps
        self.fraction = np.float32(param.moving_average_fraction)
        zero = constant(0)
        self.make_blobs([(self.channels,), (self.channels,), (1,)], [zero, zero, zero])
        self._keep_from_learning()
        self._mean, self._variance = (
            aligned_zeros((self.channels,)),
            aligned_zeros((self.channels,)),
        )

    def _keep_from_learning(self) -> None:
        for i, spec in enumerate(self.param.param):
            if spec.lr_mult != 0:
                raise ParameterError(
                    f"param entry {i} has lr_mult {spec.lr_mult:g}: running statistics are not "
                    "learned",
                    fix="set lr_mult: 0, or remove the param entries",
                )
        while len(self.param.param) < len(self.blobs):
            self.param.param.add(lr_mult=0)

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The top has the bottom's shape; the number of channels is fixed."""
        bottom = bottoms[0]
        if len(bottom.shape) < 2 or bottom.shape[1] != self.channels:
            raise ShapeError(
                f"bottom {bottom!r} must have {self.channels} channels on axis 1",
                fix="keep the number of channels",
            )
        tops[0].reshape(bottom.shape)
        what = (bottom.shape[0], self.channels, bottom.size(2), self.eps, self.of_batch)
        self._forward = self.engine.plan(BatchNormForward(*what))
        self._backward = Deferred(self.engine, BatchNormBackward(*what))
        self._kept: F32 | None = None
        if self.of_batch and tops[0] is bottom:
            self._kept = aligned_zeros(bottom.shape)
            self._keep = self.engine.plan(Concat(1, (bottom.count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Normalise; with statistics of the batch, add these to the running ones."""
        x, y = bottoms[0].data, tops[0].data
        if not bottoms[0].count:
            return  # nothing has no mean: the running statistics stay as they are
        if not self.of_batch:
            weight = self.blobs[2].data[0]
            share = np.float32(0 if weight == 0 else 1 / weight)
            np.multiply(self.blobs[0].data, share, out=self._mean)
            np.multiply(self.blobs[1].data, share, out=self._variance)
            self._forward(x, self._mean, self._variance, y)
            return
        if self._kept is not None:
            self._keep(x, self._kept)
        self._forward(x, y, self._mean, self._variance)
        values = bottoms[0].count // max(self.channels, 1)
        unbiased = np.float32(values / (values - 1) if values > 1 else 1)
        mean, variance, weight = (blob.data for blob in self.blobs)
        for running, value in ((mean, self._mean), (variance, unbiased * self._variance)):
            running *= self.fraction
            running += value
        weight[0] = self.fraction * weight[0] + 1

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Through the element itself and, of a batch, through its mean and variance."""
        if not propagate_down[0] or not bottoms[0].count:
            return
        if self.of_batch:
            x = bottoms[0].data if self._kept is None else self._kept
            self._backward(x, self._mean, self._variance, tops[0].diff, bottoms[0].diff)
        else:
            self._backward(self._variance, tops[0].diff, bottoms[0].diff)
