"""Recurrent sequences after the input product: all T steps of an LSTM or RNN are one operator.

`pre` holds what does not depend on the state (input product, bias, static input). cont (t, n) is 0
where a sequence starts and multiplies the state carried into a step. Gates lie in the order i f o g
along the last axis. Sums over steps (gradients of weights) are matrix products outside.

The forget gate is kept as f = cont * sigmoid, and its slope taken as f * (1 - f), as in Caffe:
exact for cont 0 and 1, Caffe's own value for anything between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swcaffe.arrays import F32, Array
from swcaffe.operators.base import Operand, Operator

__all__ = [
    "LstmBackward",
    "LstmForward",
    "LstmUnitBackward",
    "LstmUnitForward",
    "RnnBackward",
    "RnnForward",
]


def _activate(pre: F32, alive: F32, d: int) -> F32:
    """sigmoid of the first three gates, tanh of the last; the forget gate times cont."""
    gates = np.tanh(pre * np.repeat(np.array([0.5, 0.5, 0.5, 1], np.float32), d))
    gates[:, : 3 * d] = np.float32(0.5) * gates[:, : 3 * d] + np.float32(0.5)
    gates[:, d : 2 * d] *= alive
    return gates


def _cell(gates: F32, c: F32) -> tuple[F32, F32]:
    """(new cell, output) from activated gates and the cell before."""
    i, f, o, g = np.split(gates, 4, axis=-1)
    cell = f * c + i * g
    return cell, o * np.tanh(cell)


def _cell_gradients(gates: F32, c: F32, cell: F32, diff_h: F32, diff_cell: F32) -> tuple[F32, F32]:
    """(gradient of the gates before activation, gradient of the cell before)."""
    i, f, o, g = np.split(gates, 4, axis=-1)
    squashed = np.tanh(cell)
    whole = diff_cell + diff_h * o * (1 - squashed * squashed)
    parts = (
        whole * g * i * (1 - i),
        whole * c * f * (1 - f),
        diff_h * squashed * o * (1 - o),
        whole * i * (1 - g * g),
    )
    return np.concatenate(parts, axis=-1), whole * f


@dataclass(frozen=True, slots=True)
class LstmForward(Operator):
    """h, c and gates of t steps over n streams with d cells; gates may be pre.

    gates = activations of pre + carried @ weights.T with carried = cont * previous h;
    c = f * previous c + i * g; h = o * tanh c.
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("pre", "gates"),)
    t: int
    n: int
    d: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """pre (t, n, 4d), cont (t, n), weights (4d, d), h0 (n, d), c0 (n, d)."""
        t, n, d = self.t, self.n, self.d
        return (
            Operand("pre", (t, n, 4 * d)),
            Operand("cont", (t, n)),
            Operand("weights", (4 * d, d)),
            Operand("h0", (n, d)),
            Operand("c0", (n, d)),
        )

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """h, c (t, n, d), gates (t, n, 4d) after activation, carried (t, n, d)."""
        t, n, d = self.t, self.n, self.d
        h, c = Operand("h", (t, n, d)), Operand("c", (t, n, d))
        return (h, c, Operand("gates", (t, n, 4 * d)), Operand("carried", (t, n, d)))

    @property
    def flops(self) -> int:
        """The product with the state, and 15 per cell."""
        return self.t * self.n * self.d * (8 * self.d + 15)

    @property
    def terms(self) -> int:
        """d products per step, through t steps."""
        return self.d * self.t

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One step after the other."""
        pre, cont, weights, h, c = _shaped(self, inputs)
        hs, cs, gates, carried = (np.empty(o.shape, np.float32) for o in self.outputs)
        for step in range(self.t):
            alive = cont[step][:, None]
            carried[step] = alive * h
            gates[step] = _activate(pre[step] + carried[step] @ weights.T, alive, self.d)
            c, h = _cell(gates[step], c)
            hs[step], cs[step] = h, c
        return hs, cs, gates, carried


@dataclass(frozen=True, slots=True)
class LstmBackward(Operator):
    """diff_pre of `LstmForward` from diff_h; nothing comes back from after the last step."""

    t: int
    n: int
    d: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """cont, weights, c0, c, gates, diff_h (t, n, d)."""
        t, n, d = self.t, self.n, self.d
        return (
            Operand("cont", (t, n)),
            Operand("weights", (4 * d, d)),
            Operand("c0", (n, d)),
            Operand("c", (t, n, d)),
            Operand("gates", (t, n, 4 * d)),
            Operand("diff_h", (t, n, d)),
        )

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_pre (t, n, 4d)."""
        return (Operand("diff_pre", (self.t, self.n, 4 * self.d)),)

    @property
    def flops(self) -> int:
        """The product with the state, and 26 per cell."""
        return self.t * self.n * self.d * (8 * self.d + 26)

    @property
    def terms(self) -> int:
        """4d products per step, through t steps."""
        return 4 * self.d * self.t

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """From the last step to the first."""
        cont, weights, c0, c, gates, diff_h = _shaped(self, inputs)
        diff_pre = np.empty(self.outputs[0].shape, np.float32)
        dh, dc = np.zeros_like(c0), np.zeros_like(c0)
        for step in reversed(range(self.t)):
            alive = cont[step][:, None]
            before = c[step - 1] if step else c0
            diff_pre[step], dc = _cell_gradients(
                gates[step], before, c[step], diff_h[step] + dh, dc
            )
            dh = alive * (diff_pre[step] @ weights)
        return (diff_pre,)


@dataclass(frozen=True, slots=True)
class LstmUnitForward(Operator):
    """One step of LSTM cells whose gates `pre` are complete: c, h."""

    n: int
    d: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """c0 (n, d), pre (n, 4d), cont (n)."""
        n, d = self.n, self.d
        return (Operand("c0", (n, d)), Operand("pre", (n, 4 * d)), Operand("cont", (n,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """c, h (n, d)."""
        return (Operand("c", (self.n, self.d)), Operand("h", (self.n, self.d)))

    @property
    def flops(self) -> int:
        """15 per cell."""
        return 15 * self.n * self.d

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy."""
        c0, pre, cont = _shaped(self, inputs)
        return _cell(_activate(pre, cont[:, None], self.d), c0)


@dataclass(frozen=True, slots=True)
class LstmUnitBackward(Operator):
    """diff_c0 and diff_pre of `LstmUnitForward`."""

    n: int
    d: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """c0, pre, cont, diff_c, diff_h."""
        n, d = self.n, self.d
        return (
            Operand("c0", (n, d)),
            Operand("pre", (n, 4 * d)),
            Operand("cont", (n,)),
            Operand("diff_c", (n, d)),
            Operand("diff_h", (n, d)),
        )

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_c0 (n, d), diff_pre (n, 4d)."""
        n, d = self.n, self.d
        return (Operand("diff_c0", (n, d)), Operand("diff_pre", (n, 4 * d)))

    @property
    def flops(self) -> int:
        """The activations again, and 26 per cell."""
        return 41 * self.n * self.d

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The activations again, then the gradients."""
        c0, pre, cont, diff_c, diff_h = _shaped(self, inputs)
        gates = _activate(pre, cont[:, None], self.d)
        cell, _ = _cell(gates, c0)
        diff_pre, diff_c0 = _cell_gradients(gates, c0, cell, diff_h, diff_c)
        return diff_c0, diff_pre


@dataclass(frozen=True, slots=True)
class RnnForward(Operator):
    """h = tanh(pre + carried @ weights.T) over t steps, carried = cont * previous h."""

    t: int
    n: int
    d: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """pre (t, n, d), cont (t, n), weights (d, d), h0 (n, d)."""
        t, n, d = self.t, self.n, self.d
        first = (Operand("pre", (t, n, d)), Operand("cont", (t, n)))
        return (*first, Operand("weights", (d, d)), Operand("h0", (n, d)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """h, carried (t, n, d)."""
        shape = (self.t, self.n, self.d)
        return (Operand("h", shape), Operand("carried", shape))

    @property
    def flops(self) -> int:
        """The product with the state, and three per cell."""
        return self.t * self.n * self.d * (2 * self.d + 3)

    @property
    def terms(self) -> int:
        """d products per step, through t steps."""
        return self.d * self.t

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """One step after the other."""
        pre, cont, weights, h = _shaped(self, inputs)
        hs, carried = np.empty_like(pre), np.empty_like(pre)
        for step in range(self.t):
            carried[step] = cont[step][:, None] * h
            h = hs[step] = np.tanh(pre[step] + carried[step] @ weights.T)
        return hs, carried


@dataclass(frozen=True, slots=True)
class RnnBackward(Operator):
    """diff_pre of `RnnForward` from diff_h; nothing comes back from after the last step."""

    t: int
    n: int
    d: int

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """cont, weights, h, diff_h."""
        t, n, d = self.t, self.n, self.d
        first = (Operand("cont", (t, n)), Operand("weights", (d, d)))
        return (*first, Operand("h", (t, n, d)), Operand("diff_h", (t, n, d)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_pre (t, n, d)."""
        return (Operand("diff_pre", (self.t, self.n, self.d)),)

    @property
    def flops(self) -> int:
        """The product with the state, and five per cell."""
        return self.t * self.n * self.d * (2 * self.d + 5)

    @property
    def terms(self) -> int:
        """d products per step, through t steps."""
        return self.d * self.t

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """From the last step to the first."""
        cont, weights, h, diff_h = _shaped(self, inputs)
        diff_pre, back = np.empty_like(h), np.zeros_like(h[0])
        for step in reversed(range(self.t)):
            diff_pre[step] = (diff_h[step] + back) * (1 - h[step] * h[step])
            back = cont[step][:, None] * (diff_pre[step] @ weights)
        return (diff_pre,)


def _shaped(op: Operator, arrays: tuple[Array, ...]) -> tuple[F32, ...]:
    """The input arrays in their operands' shapes."""
    return tuple(a.reshape(o.shape) for a, o in zip(arrays, op.inputs, strict=True))
