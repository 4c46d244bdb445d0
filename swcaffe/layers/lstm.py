"""LSTM."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import aligned_zeros
from swcaffe.layers._plans import Deferred
from swcaffe.layers._recurrent import Recurrent
from swcaffe.net.layer import LAYERS, Blobs
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.recurrent import LstmBackward, LstmForward

__all__ = ["LSTM"]


@LAYERS.register("LSTM")
class LSTM(Recurrent):
    """Long short-term memory without peepholes; gates in the order i f o g.

    blobs  input weights (4d, k), bias (4d), [static weights (4d, s)], state weights (4d, d)
    c = cont * f * c + i * g,  h = o * tanh c,  the output is h. States: h, c.
    """

    states = ("h", "c")
    gates = 4

    def make_plans(self) -> None:
        """All steps forward in one operator, all steps backward in one."""
        t, n, d = self.t, self.n, self.d
        self._c, self._carried = aligned_zeros((t, n, d)), aligned_zeros((t, n, d))
        self._steps = self.engine.plan(LstmForward(t, n, d))
        self._back = Deferred(self.engine, LstmBackward(t, n, d))
        to_state_weights = Gemm(4 * d, d, t * n, trans_a=True, accumulate=True)
        self._to_state_weights = Deferred(self.engine, to_state_weights)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """The input product of all steps, then the recurrence."""
        self.begin(bottoms)
        weights, h = self.blobs[self.state_blob].data, tops[0].data
        start = (self.first["h"], self.first["c"])
        gates = self.pre
        self._steps(self.pre, bottoms[1].data, weights, *start, h, self._c, gates, self._carried)
        self.end(tops, (h[-1], self._c[-1]))

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """The recurrence backward, then the products."""
        self.check_flags(propagate_down, bottoms)
        weights, gates = self.blobs[self.state_blob], self.pre
        self._back(
            bottoms[1].data,
            weights.data,
            self.first["c"],
            self._c,
            gates,
            tops[0].diff,
            self.diff_pre,
        )
        if self.learns(self.state_blob):
            self._to_state_weights(self.diff_pre, self._carried, weights.diff)
        self.backward_input(propagate_down, bottoms)
