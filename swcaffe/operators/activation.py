"""Elementwise activations of one array, and their gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from swcaffe.arrays import Array
from swcaffe.operators.base import Operand, Operator

__all__ = ["ActivationBackward", "ActivationForward", "ActivationKind"]

ActivationKind: TypeAlias = Literal["relu", "sigmoid", "tanh", "elu"]


@dataclass(frozen=True, slots=True)
class ActivationForward(Operator):
    """dst = f(src), elementwise; dst may be src.

    relu     max(x, 0) + alpha * min(x, 0)
    sigmoid  (1 + tanh(x / 2)) / 2
    tanh     tanh x
    elu      x where x > 0, else alpha * (e^x - 1)
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src", "dst"),)
    kind: ActivationKind
    count: int
    alpha: float = 0.0

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src."""
        return (Operand("src", (self.count,)),)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """dst."""
        return (Operand("dst", (self.count,)),)

    @property
    def flops(self) -> int:
        """One per element, as the transcendental functions have no fixed count."""
        return self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy, single precision."""
        x, alpha = inputs[0].reshape(-1), np.float32(self.alpha)
        if self.kind == "relu":
            return (np.maximum(x, 0) + alpha * np.minimum(x, 0),)
        if self.kind == "sigmoid":
            return (np.float32(0.5) * np.tanh(np.float32(0.5) * x) + np.float32(0.5),)
        if self.kind == "tanh":
            return (np.tanh(x),)
        return (np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),)


@dataclass(frozen=True, slots=True)
class ActivationBackward(Operator):
    """diff_src = diff_dst * f'(src), from src and dst; diff_src may be diff_dst, src may be dst.

    relu takes its slope at 0 from the negative side.
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("diff_dst", "diff_src"),)
    kind: ActivationKind
    count: int
    alpha: float = 0.0

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, dst, diff_dst."""
        return tuple(Operand(name, (self.count,)) for name in ("src", "dst", "diff_dst"))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", (self.count,)),)

    @property
    def flops(self) -> int:
        """At most three per element."""
        return {"relu": 1, "sigmoid": 3, "tanh": 3, "elu": 2}[self.kind] * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy, single precision."""
        x, y, dy = (a.reshape(-1) for a in inputs)
        one, alpha = np.float32(1), np.float32(self.alpha)
        if self.kind == "relu":
            return (dy * np.where(x > 0, one, alpha),)
        if self.kind == "sigmoid":
            return (dy * y * (one - y),)
        if self.kind == "tanh":
            return (dy * (one - y * y),)
        return (dy * np.where(x > 0, one, y + alpha),)
