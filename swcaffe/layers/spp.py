"""SPP."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import aligned_zeros
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.layers._pool import Pool
from swcaffe.net.blob import Blob
from swcaffe.net.layer import LAYERS, Blobs, Layer, Phase, exactly
from swcaffe.operators.eltwise import EltwiseSum
from swcaffe.operators.layout import Concat, Slice
from swcaffe.operators.pooling import PoolGeometry
from swcaffe.proto import messages

__all__ = ["SPP"]


@LAYERS.register("SPP")
class SPP(Layer):
    """Spatial pyramid pooling (He et al. 2014): as many values whatever the image's size.

    bottom[0]  (n, c, h, w)
    top[0]     (n, c * sum of bins); level l pools the image into 2^l x 2^l bins. One level alone
               keeps its axes: (n, c, 1, 1)
    Reads spp_param: pyramid_height, pool. Windows follow Caffe's rounding, as in Pooling.
    """

    bottoms = exactly(1)
    tops = exactly(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read spp_param."""
        self.height: int = self.param.spp_param.pyramid_height
        if self.height < 1:
            raise ParameterError("pyramid_height is missing or 0", fix="set it in spp_param")

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Plan each level."""
        bottom = bottoms[0]
        if len(bottom.shape) != 4:
            raise ShapeError(
                f"bottom {bottom!r} must have 4 axes, (n, c, h, w)", fix="feed (n, c, h, w)"
            )
        levels = [self._geometry(bottom, 2**level) for level in range(self.height)]
        training, method = self.phase == Phase.TRAIN, self.param.spp_param.pool
        self._pools = [Pool(self.engine, g, method, training) for g in levels]
        self._values = [aligned_zeros(g.dst) for g in levels]
        n, widths = bottom.shape[0], tuple(g.c * g.out_size[0] * g.out_size[1] for g in levels)
        tops[0].reshape(levels[0].dst if self.height == 1 else (n, sum(widths)))
        self._join = self.engine.plan(Concat(n, widths))
        self._cut = Deferred(self.engine, Slice(n, widths, tuple(range(self.height))))
        self._add = Deferred(self.engine, EltwiseSum(bottom.count, (1.0, 1.0)))
        self._spare = aligned_zeros(bottom.shape)

    def _geometry(self, bottom: Blob, bins: int) -> PoolGeometry:
        """Caffe's windows: as large as it takes, the excess laid half before the image."""
        n, c, *size = bottom.shape
        (kh, ph), (kw, pw) = ((k := -(-s // bins), (k * bins - s + 1) // 2) for s in size)
        if ph >= max(kh, 1) or pw >= max(kw, 1):
            raise ShapeError(
                f"bottom {bottom!r} is too small for the {bins} x {bins} bins of the last level",
                fix="lower pyramid_height, or feed larger images",
            )
        if (ph or pw) and self.param.spp_param.pool == messages.SPPParameter.STOCHASTIC:
            raise ShapeError(
                f"bottom {bottom!r} does not divide into {bins} x {bins} bins, and STOCHASTIC "
                "takes no padding",
                fix="choose MAX or AVE, or feed images whose sides the bins divide",
            )
        return PoolGeometry(n, c, (size[0], size[1]), (kh, kw), (kh, kw), (ph, pw))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Pool each level, put them side by side."""
        for pool, values in zip(self._pools, self._values, strict=True):
            pool.forward(bottoms[0].data, values, self.rng)
        self._join(*self._values, tops[0].data)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Sum over the levels; their values make room for their gradients."""
        if not propagate_down[0]:
            return
        self._cut(tops[0].diff, *self._values)
        diff = bottoms[0].diff
        self._pools[0].backward(self._values[0], diff)
        for pool, values in zip(self._pools[1:], self._values[1:], strict=True):
            pool.backward(values, self._spare)
            self._add(diff, self._spare, diff)
