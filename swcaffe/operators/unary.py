"""Elementwise functions of one array, and their gradients, which read the source alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from swcaffe.arrays import Array
from swcaffe.operators.base import Operand, Operator

__all__ = ["UnaryBackward", "UnaryForward", "UnaryKind"]

UnaryKind: TypeAlias = Literal["abs", "bnll", "clip", "exp", "log", "power", "swish", "threshold"]

HALF, ONE, ZERO = np.float32(0.5), np.float32(1), np.float32(0)


def _sigmoid(x: Array) -> Array:
    return np.asarray(HALF * np.tanh(HALF * x) + HALF)


def _bnll_slope(x: Array) -> Array:
    power = np.exp(np.minimum(x, 50))  # exact to the last bit where it is tiny; beyond 50 it is 1
    return np.asarray(power / (power + ONE))


def _power(x: Array, power: np.float32, scale: np.float32, shift: np.float32) -> Array:
    base = np.full_like(x, shift) if scale == 0 else scale * x + shift
    return np.asarray(np.power(base, power))


def _power_slope(x: Array, power: np.float32, scale: np.float32, shift: np.float32) -> Array:
    if power * scale == 0:
        return np.zeros_like(x)
    return np.asarray(power * scale * np.power(scale * x + shift, power - ONE))


def _swish_slope(x: Array, beta: np.float32) -> Array:
    share = _sigmoid(beta * x)
    return np.asarray(share + beta * x * share * (ONE - share))


FUNCTIONS: dict[UnaryKind, Callable[..., Array]] = {
    "abs": np.abs,
    "bnll": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "clip": np.clip,
    "exp": lambda x, scale, shift: np.exp(scale * x + shift),
    "log": lambda x, factor, scale, shift: factor * np.log(scale * x + shift),
    "power": _power,
    "swish": lambda x, beta: x * _sigmoid(beta * x),
    "threshold": lambda x, limit: (x > limit).astype(np.float32),
}

SLOPES: dict[UnaryKind, Callable[..., Array]] = {
    "abs": np.sign,
    "bnll": _bnll_slope,
    "clip": lambda x, low, high: ((low <= x) & (x <= high)).astype(np.float32),
    "exp": lambda x, scale, shift: scale * np.exp(scale * x + shift),
    "log": lambda x, factor, scale, shift: factor * scale / (scale * x + shift),
    "power": _power_slope,
    "swish": _swish_slope,
}


@dataclass(frozen=True, slots=True)
class UnaryForward(Operator):
    """dst = f(src), elementwise; dst may be src. `args` are those in brackets:

    abs        |x|
    bnll       log(1 + e^x)
    clip       x, but at least `low` and at most `high`            (low, high)
    exp        e^(scale * x + shift)                               (scale, shift)
    log        factor * ln(scale * x + shift)                      (factor, scale, shift)
    power      (scale * x + shift)^power                           (power, scale, shift)
    swish      x / (1 + e^(-beta * x))                             (beta)
    threshold  1 where x > limit, else 0                           (limit)
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("src", "dst"),)
    kind: UnaryKind
    count: int
    args: tuple[float, ...] = ()

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
        """One per element and argument, one for the function, which has no fixed count."""
        return (1 + len(self.args)) * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy, single precision."""
        return (FUNCTIONS[self.kind](inputs[0].reshape(-1), *map(np.float32, self.args)),)


@dataclass(frozen=True, slots=True)
class UnaryBackward(Operator):
    """diff_src = diff_dst * f'(src), 0 wherever the slope is; diff_src may be diff_dst.

    Slopes at kinks: 0 of abs at 0, 1 of clip at its limits. There is none of threshold.
    """

    aliases: ClassVar[tuple[tuple[str, str], ...]] = (("diff_dst", "diff_src"),)
    kind: UnaryKind
    count: int
    args: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Kinds with a slope only."""
        assert self.kind in SLOPES, f"{self.kind} has no gradient"

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """src, diff_dst."""
        return (Operand("src", (self.count,)), Operand("diff_dst", (self.count,)))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """diff_src."""
        return (Operand("diff_src", (self.count,)),)

    @property
    def flops(self) -> int:
        """As the function, and one product per element."""
        return (2 + len(self.args)) * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The formula in numpy, single precision."""
        src, diff_dst = (a.reshape(-1) for a in inputs)
        slope = SLOPES[self.kind](src, *map(np.float32, self.args))
        return (np.where(slope == 0, ZERO, diff_dst * slope),)
