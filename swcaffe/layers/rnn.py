"""RNN."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import F32, Shape, aligned_zeros
from swcaffe.layers._plans import Deferred
from swcaffe.layers._recurrent import Recurrent
from swcaffe.net.layer import LAYERS, Blobs
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.affine import AffineBackwardWeights
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.layout import Concat
from swcaffe.operators.recurrent import RnnBackward, RnnForward

__all__ = ["RNN"]


@LAYERS.register("RNN")
class RNN(Recurrent):
    """Plain recurrence with an output product: h = tanh(…), output = tanh(h @ w_o.T + b_o).

    blobs  input weights (d, k), bias (d), [static weights (d, s)], state weights (d, d),
           output weights (d, d), output bias (d).  State: h.
    """

    states = ("h",)
    gates = 1

    def state_weights(self) -> list[Shape]:
        """State weights, output weights, output bias."""
        return [(self.d, self.d), (self.d, self.d), (self.d,)]

    def make_plans(self) -> None:
        """All steps forward in one operator, all steps backward in one."""
        t, n, d = self.t, self.n, self.d
        shape, count, engine = (t, n, d), t * n * d, self.engine
        self._h, self._carried, self._diff_out, self._diff_h = (
            aligned_zeros(shape) for _ in range(4)
        )
        self._steps = engine.plan(RnnForward(t, n, d))
        self._output = engine.plan(Gemm(t * n, d, d, trans_b=True, has_bias=True))
        self._squash = engine.plan(ActivationForward("tanh", count))
        self._unsquash = Deferred(engine, ActivationBackward("tanh", count))
        self._to_square = Deferred(engine, Gemm(d, d, t * n, trans_a=True, accumulate=True))
        self._to_out_bias = Deferred(engine, AffineBackwardWeights(t * n, d, 1, False, True))
        self._to_h = Deferred(engine, Gemm(t * n, d, d))
        self._back = Deferred(engine, RnnBackward(t, n, d))
        self._kept: F32 | None = None
        if self.context.overwriters:
            self._kept = aligned_zeros(shape)
            self._keep = engine.plan(Concat(1, (count,)))

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """The input product of all steps, the recurrence, the output product of all steps."""
        self.begin(bottoms)
        state, out, bias = (blob.data for blob in self.blobs[self.state_blob :])
        first, y = self.first["h"], tops[0].data
        self._steps(self.pre, bottoms[1].data, state, first, self._h, self._carried)
        self._output(self._h, out, bias, y)
        self._squash(y, y)
        if self._kept is not None:
            self._keep(y, self._kept)
        self.end(tops, (self._h[-1],))

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """The same in reverse."""
        self.check_flags(propagate_down, bottoms)
        at, y = self.state_blob, tops[0].data if self._kept is None else self._kept
        state, out, bias = self.blobs[at:]
        self._unsquash(y, y, tops[0].diff, self._diff_out)
        if self.learns(at + 1):
            self._to_square(self._diff_out, self._h, out.diff)
        if self.learns(at + 2):
            self._to_out_bias(self._diff_out, bias.diff)
        self._to_h(self._diff_out, out.data, self._diff_h)
        self._back(bottoms[1].data, state.data, self._h, self._diff_h, self.diff_pre)
        if self.learns(at):
            self._to_square(self.diff_pre, self._carried, state.diff)
        self.backward_input(propagate_down, bottoms)
