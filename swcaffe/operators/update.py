"""Update rules of the solvers: scale, regularise, step and apply in one pass over flat arrays.

Every rule reads `hyper`, the numbers that change from call to call: rate, decay, scale. With

    g = scale * diff + decay * w        (L2)    or    scale * diff + decay * sign w    (L1)

a rule turns g and its histories into a step, and the weights become w - step. `scale` holds the
division by iter_size and the clipping factor; `decay` is weight_decay * decay_mult; `rate` is the
learning rate * lr_mult (for Adam also * sqrt(1 - beta2^t) / (1 - beta1^t)).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from swcaffe.arrays import Array
from swcaffe.operators.base import Operand, Operator

__all__ = [
    "HYPER",
    "AdaDeltaUpdate",
    "AdaGradUpdate",
    "AdamUpdate",
    "NesterovUpdate",
    "Regularization",
    "RmsPropUpdate",
    "SgdUpdate",
    "Update",
]

HYPER = ("rate", "decay", "scale")
"""The elements of the operand `hyper`."""

Regularization: TypeAlias = Literal["L1", "L2"]


@dataclass(frozen=True, slots=True)
class Update(Operator):
    """Base of the rules: weights and histories are inputs and outputs, normally the same arrays."""

    histories: ClassVar[tuple[str, ...]] = ("history",)
    cost: ClassVar[int]
    aliases: ClassVar[tuple[tuple[str, str], ...]]
    count: int
    regularization: Regularization = "L2"

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """hyper (3), weights, diff, then the histories."""
        names = ("weights", "diff", *self.histories)
        return (Operand("hyper", (3,)), *(Operand(n, (self.count,)) for n in names))

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """weights, then the histories; each may be the input of the same name."""
        return tuple(Operand(n, (self.count,)) for n in ("weights", *self.histories))

    @property
    def flops(self) -> int:
        """Four for g, the rule's own, one to apply."""
        return (5 + self.cost) * self.count

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """g, then the rule, then the weights."""
        rate, decay, scale = inputs[0].reshape(3).astype(np.float32)
        weights, diff, *histories = (a.reshape(-1) for a in inputs[1:])
        shrink = weights if self.regularization == "L2" else np.sign(weights)
        step, *histories = self.rule(scale * diff + decay * shrink, rate, *histories)
        return (weights - step, *histories)

    @abstractmethod
    def rule(self, g: Array, rate: np.float32, *histories: Array) -> tuple[Array, ...]:
        """(step, new histories)."""


@dataclass(frozen=True, slots=True)
class SgdUpdate(Update):
    """h = momentum * h + rate * g; the step is h."""

    cost: ClassVar[int] = 3
    aliases: ClassVar[tuple[tuple[str, str], ...]] = (
        ("weights", "weights"),
        ("history", "history"),
    )
    momentum: float = 0.0

    def rule(self, g: Array, rate: np.float32, *histories: Array) -> tuple[Array, ...]:
        """Heavy ball."""
        h = np.float32(self.momentum) * histories[0] + rate * g
        return h, h


@dataclass(frozen=True, slots=True)
class NesterovUpdate(Update):
    """h' = momentum * h + rate * g; the step is (1 + momentum) * h' - momentum * h."""

    cost: ClassVar[int] = 6
    aliases: ClassVar[tuple[tuple[str, str], ...]] = SgdUpdate.aliases
    momentum: float = 0.0

    def rule(self, g: Array, rate: np.float32, *histories: Array) -> tuple[Array, ...]:
        """Look-ahead momentum."""
        momentum = np.float32(self.momentum)
        h = momentum * histories[0] + rate * g
        return (np.float32(1) + momentum) * h - momentum * histories[0], h


@dataclass(frozen=True, slots=True)
class AdaGradUpdate(Update):
    """h += g^2; the step is rate * g / (sqrt(h) + delta)."""

    cost: ClassVar[int] = 6
    aliases: ClassVar[tuple[tuple[str, str], ...]] = SgdUpdate.aliases
    delta: float = 1e-8

    def rule(self, g: Array, rate: np.float32, *histories: Array) -> tuple[Array, ...]:
        """Sum of squares."""
        h = histories[0] + g * g
        return rate * g / (np.sqrt(h) + np.float32(self.delta)), h


@dataclass(frozen=True, slots=True)
class RmsPropUpdate(Update):
    """h = rms_decay * h + (1 - rms_decay) * g^2; the step is rate * g / (sqrt(h) + delta)."""

    cost: ClassVar[int] = 8
    aliases: ClassVar[tuple[tuple[str, str], ...]] = SgdUpdate.aliases
    rms_decay: float = 0.99
    delta: float = 1e-8

    def rule(self, g: Array, rate: np.float32, *histories: Array) -> tuple[Array, ...]:
        """Moving mean of squares."""
        decay = np.float32(self.rms_decay)
        h = decay * histories[0] + (np.float32(1) - decay) * (g * g)
        return rate * g / (np.sqrt(h) + np.float32(self.delta)), h


@dataclass(frozen=True, slots=True)
class AdaDeltaUpdate(Update):
    """Squares of gradients and of steps; the step is rate * u.

    gradients = momentum * gradients + (1 - momentum) * g^2
    u = g * sqrt((steps + delta) / (gradients + delta))
    steps = momentum * steps + (1 - momentum) * u^2
    """

    histories: ClassVar[tuple[str, ...]] = ("gradients", "steps")
    cost: ClassVar[int] = 14
    aliases: ClassVar[tuple[tuple[str, str], ...]] = (
        ("weights", "weights"),
        ("gradients", "gradients"),
        ("steps", "steps"),
    )
    momentum: float = 0.95
    delta: float = 1e-8

    def rule(self, g: Array, rate: np.float32, *histories: Array) -> tuple[Array, ...]:
        """Zeiler 2012, algorithm 1, with a rate."""
        momentum, delta = np.float32(self.momentum), np.float32(self.delta)
        rest = np.float32(1) - momentum
        gradients = momentum * histories[0] + rest * (g * g)
        u = g * np.sqrt((histories[1] + delta) / (gradients + delta))
        return rate * u, gradients, momentum * histories[1] + rest * (u * u)


@dataclass(frozen=True, slots=True)
class AdamUpdate(Update):
    """m and v, moving means of g and g^2; the step is rate * m / (sqrt(v) + delta)."""

    histories: ClassVar[tuple[str, ...]] = ("m", "v")
    cost: ClassVar[int] = 11
    aliases: ClassVar[tuple[tuple[str, str], ...]] = (
        ("weights", "weights"),
        ("m", "m"),
        ("v", "v"),
    )
    beta1: float = 0.9
    beta2: float = 0.999
    delta: float = 1e-8

    def rule(self, g: Array, rate: np.float32, *histories: Array) -> tuple[Array, ...]:
        """Kingma and Ba 2015; the corrections for the start are in the rate."""
        one, beta1, beta2 = np.float32(1), np.float32(self.beta1), np.float32(self.beta2)
        m = beta1 * histories[0] + (one - beta1) * g
        v = beta2 * histories[1] + (one - beta2) * (g * g)
        return rate * m / (np.sqrt(v) + np.float32(self.delta)), m, v
