"""What LSTM and RNN share: bottoms and tops, the input product over all steps, carried state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from swcaffe.arrays import F32, Array, Shape, aligned_zeros
from swcaffe.errors import NetError, ParameterError, ShapeError
from swcaffe.layers._plans import Deferred
from swcaffe.layers._weights import WeightedLayer
from swcaffe.net.layer import Blobs, at_least, exactly
from swcaffe.operators.affine import AffineBackwardWeights, AffineForward
from swcaffe.operators.gemm import Gemm

__all__ = ["Recurrent"]


class Recurrent(WeightedLayer):
    """T steps over N streams; a stream starts anew where cont is 0.

    bottoms  x (t, n, …), cont (t, n), [static (n, …)], and with expose_hidden the first states,
             each (1, n, d)
    tops     output (t, n, d) and with expose_hidden the last states, each (1, n, d)
    Reads recurrent_param. Without expose_hidden the last state of a pass is the first of the next.
    Gradients end at the edges of a batch, as in Caffe: none reaches a first state.
    """

    bottoms = at_least(2)
    tops = at_least(1)
    states: ClassVar[tuple[str, ...]]
    """Names of the carried states, in the order of bottoms and tops."""
    gates: ClassVar[int]
    """Rows of the input weights, in multiples of num_output."""

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read recurrent_param, count bottoms and tops, make weights."""
        param = self.param.recurrent_param
        self.d: int = param.num_output
        if self.d < 1:
            raise ParameterError(
                "num_output is missing or 0", fix="set num_output in recurrent_param"
            )
        self.exposed: bool = param.expose_hidden
        hidden = len(self.states) if self.exposed else 0
        if not 2 + hidden <= len(bottoms) <= 3 + hidden:
            raise NetError(
                f"takes {2 + hidden} to {3 + hidden} bottom(s), got {len(bottoms)}",
                fix="give x, cont, then static input and first states where they are used",
            )
        exactly(1 + hidden).check(len(tops), "top(s)")
        self.has_static = len(bottoms) > 2 + hidden
        x = bottoms[0]
        if len(x.shape) < 2:
            raise ShapeError(
                f"bottom {x!r} must have at least 2 axes, (t, n, …)",
                fix="reshape x to (steps, streams, values)",
            )
        self.t, self.k, rows = x.shape[0], x.size(2), self.gates * self.d
        self.static_size = bottoms[2].size(1) if self.has_static else 0
        shapes: list[Shape] = [(rows, self.k), (rows,)]
        shapes += [(rows, self.static_size)] if self.has_static else []
        shapes += self.state_weights()
        fillers = [param.bias_filler if len(s) == 1 else param.weight_filler for s in shapes]
        self.make_blobs(shapes, fillers)
        self._last: dict[str, F32] = {}
        self.first: dict[str, F32] = {}

    def state_weights(self) -> list[Shape]:
        """Shapes of the weights behind those of the inputs; vectors are biases."""
        return [(self.gates * self.d, self.d)]

    @property
    def state_blob(self) -> int:
        """Index of the first blob of `state_weights`."""
        return 3 if self.has_static else 2

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The number of streams may change, the number of steps may not."""
        x, cont = bottoms[0], bottoms[1]
        if x.shape[0] != self.t or x.size(2) != self.k or len(x.shape) < 2:
            raise ShapeError(
                f"bottom {x!r} must have {self.t} steps of {self.k} values, as at setup",
                fix="keep steps and values; only the number of streams may change",
            )
        self.n = n = x.shape[1]
        if cont.shape != (self.t, n):
            raise ShapeError(
                f"cont {cont!r} must have shape {(self.t, n)}",
                fix="give one number for each step and stream",
            )
        if self.has_static and (bottoms[2].shape[0], bottoms[2].size(1)) != (n, self.static_size):
            raise ShapeError(
                f"static {bottoms[2]!r} must have {n} items of {self.static_size}",
                fix="give one row for each stream",
            )
        if self.exposed:
            for blob in bottoms[-len(self.states) :]:
                if blob.shape != (1, n, self.d):
                    raise ShapeError(
                        f"first state {blob!r} must have shape {(1, n, self.d)}",
                        fix="feed the state with one row for each stream",
                    )
        for i, top in enumerate(tops):
            top.reshape((1 if i else self.t, n, self.d))
        self._resize_states()
        self._plan_input()
        self.make_plans()

    def _resize_states(self) -> None:
        for name in self.states:
            old, new = self._last.get(name), aligned_zeros((self.n, self.d))
            if old is not None:
                kept = min(len(old), self.n)
                new[:kept] = old[:kept]
            self._last[name], self.first[name] = new, aligned_zeros((self.n, self.d))

    def _plan_input(self) -> None:
        n, k, s, rows = self.n, self.k, self.static_size, self.gates * self.d
        steps = self.t * n
        plan, engine = self.engine.plan, self.engine
        self.pre, self.diff_pre = (aligned_zeros((self.t, n, rows)) for _ in range(2))
        self._project = plan(Gemm(steps, rows, k, trans_b=True, has_bias=True))
        self._to_weights = Deferred(engine, Gemm(rows, k, steps, trans_a=True, accumulate=True))
        self._to_bias = Deferred(engine, AffineBackwardWeights(steps, rows, 1, False, True))
        self._to_x = Deferred(engine, Gemm(steps, k, rows))
        if not self.has_static:
            return
        self._static = aligned_zeros((n, rows))
        self._project_static = plan(Gemm(n, rows, s, trans_b=True))
        self._add_static = plan(AffineForward(self.t, n * rows, 1, False, True))
        over_steps = AffineBackwardWeights(self.t, n * rows, 1, False, True, accumulate=False)
        self._sum_static = Deferred(engine, over_steps)
        self._to_static_weights = Deferred(engine, Gemm(rows, s, n, trans_a=True, accumulate=True))
        self._to_static = Deferred(engine, Gemm(n, s, rows))

    @abstractmethod
    def make_plans(self) -> None:
        """Plan the recurrence."""

    def begin(self, bottoms: Blobs) -> None:
        """Fill `pre` with the input's part, and `first` with the states to start from."""
        self._project(bottoms[0].data, self.blobs[0].data, self.blobs[1].data, self.pre)
        if self.has_static:
            self._project_static(bottoms[2].data, self.blobs[2].data, self._static)
            self._add_static(self.pre, self._static, self.pre)
        for i, name in enumerate(self.states):
            given = bottoms[i - len(self.states)].data[0] if self.exposed else self._last[name]
            self.first[name][...] = given

    def end(self, tops: Blobs, last: Sequence[F32]) -> None:
        """Keep the last states for the next pass, or give them out."""
        for i, (name, state) in enumerate(zip(self.states, last, strict=True)):
            self._last[name][...] = state
            if self.exposed:
                tops[1 + i].data[0] = state

    def check_flags(self, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Raise NetError if cont is asked for a gradient; first states get zeros."""
        if propagate_down[1]:
            raise NetError(
                f"cannot backpropagate to cont {bottoms[1]!r}",
                fix="set propagate_down: false for cont",
            )
        for blob, wanted in list(zip(bottoms, propagate_down, strict=True))[2 + self.has_static :]:
            if wanted:
                blob.diff.fill(0)

    def backward_input(self, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Gradients of the input's weights and of x and static, from `diff_pre`."""
        blobs, diff = self.blobs, self.diff_pre
        if self.learns(0):
            self._to_weights(diff, bottoms[0].data, blobs[0].diff)
        if self.learns(1):
            self._to_bias(diff, blobs[1].diff)
        if propagate_down[0]:
            self._to_x(diff, blobs[0].data, bottoms[0].diff)
        if not self.has_static:
            return
        self._sum_static(diff, self._static)
        if self.learns(2):
            self._to_static_weights(self._static, bottoms[2].data, blobs[2].diff)
        if propagate_down[2]:
            self._to_static(self._static, blobs[2].data, bottoms[2].diff)

    def allow_force_backward(self, bottom: int) -> bool:
        """Not to cont."""
        return bottom != 1

    def state(self) -> dict[str, Array]:
        """Also the states carried to the next pass."""
        carried = {f"carried/{name}": value.copy() for name, value in self._last.items()}
        return {**super().state(), **carried}

    def load_state(self, state: dict[str, Array]) -> None:
        """Also the states carried to the next pass."""
        super().load_state(state)
        for name in self.states:
            saved = state.get(f"carried/{name}")
            if saved is None:
                continue
            if saved.shape != (self.n, self.d):
                raise ShapeError(
                    f"saved state {name} has shape {saved.shape}, the layer {(self.n, self.d)}",
                    fix="resume with the net that wrote the state",
                )
            self._last[name][...] = saved
