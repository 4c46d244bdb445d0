"""Learning-rate policies: rate as a function of the number of updates done so far."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from swcaffe.errors import ParameterError
from swcaffe.proto.messages import Message
from swcaffe.registry import Registry

__all__ = ["LR_POLICIES", "LearningRate", "Schedule"]

log = logging.getLogger(__name__)

Schedule = Callable[[Message, int, int], float]
"""(SolverParameter, iteration, current step) -> rate."""

LR_POLICIES: Registry[Schedule] = Registry("lr_policy", ParameterError)


@LR_POLICIES.register("fixed")
def fixed(p: Message, iteration: int, step: int) -> float:
    """base_lr."""
    return float(p.base_lr)


@LR_POLICIES.register("step")
def step(p: Message, iteration: int, step: int) -> float:
    """base_lr * gamma ^ floor(iteration / stepsize)."""
    return float(p.base_lr * p.gamma**step)


@LR_POLICIES.register("exp")
def exp(p: Message, iteration: int, step: int) -> float:
    """base_lr * gamma ^ iteration."""
    return float(p.base_lr * p.gamma**iteration)


@LR_POLICIES.register("inv")
def inv(p: Message, iteration: int, step: int) -> float:
    """base_lr * (1 + gamma * iteration) ^ -power."""
    return float(p.base_lr * (1 + p.gamma * iteration) ** -p.power)


@LR_POLICIES.register("multistep")
def multistep(p: Message, iteration: int, step: int) -> float:
    """base_lr * gamma ^ (stepvalues passed)."""
    return float(p.base_lr * p.gamma**step)


@LR_POLICIES.register("poly")
def poly(p: Message, iteration: int, step: int) -> float:
    """base_lr * (1 - iteration / max_iter) ^ power."""
    return float(p.base_lr * max(0.0, 1 - iteration / p.max_iter) ** p.power)


@LR_POLICIES.register("sigmoid")
def sigmoid(p: Message, iteration: int, step: int) -> float:
    """base_lr / (1 + exp(-gamma * (iteration - stepsize)))."""
    exponent = -p.gamma * (iteration - p.stepsize)
    return float(p.base_lr / (1 + math.exp(exponent))) if exponent < 700 else 0.0


NEEDS = {
    "step": ("gamma", "stepsize"),
    "exp": ("gamma",),
    "inv": ("gamma", "power"),
    "multistep": ("gamma",),
    "poly": ("power", "max_iter"),
    "sigmoid": ("gamma", "stepsize"),
}
"""Fields without which a policy means nothing; checked before training instead of using zeros."""


@dataclass
class LearningRate:
    """The policy of a solver, with the step it has reached (saved in snapshots as current_step)."""

    param: Message
    current_step: int = 0

    def __post_init__(self) -> None:
        """Check the policy's fields. Raises ParameterError naming the field and its value."""
        p = self.param
        if not p.lr_policy:
            raise ParameterError("lr_policy is missing", fix=f"set one of {', '.join(LR_POLICIES)}")
        self._schedule = LR_POLICIES.get(p.lr_policy)
        for name in NEEDS.get(p.lr_policy, ()):
            if not p.HasField(name):
                raise ParameterError(
                    f'lr_policy "{p.lr_policy}" needs {name}', fix="set it in the solver"
                )
            if name == "gamma" and p.gamma < 0:
                raise ParameterError(
                    f"gamma must be 0 or more, got {p.gamma:g}", fix="give 0 or more"
                )
            if name in ("stepsize", "max_iter") and getattr(p, name) <= 0:
                raise ParameterError(
                    f"{name} must be positive, got {getattr(p, name)}", fix="give 1 or more"
                )
        if p.lr_policy == "multistep" and list(p.stepvalue) != sorted(p.stepvalue):
            raise ParameterError(
                f"stepvalue must increase, got {list(p.stepvalue)}",
                fix="write the stepvalues in rising order",
            )

    def at(self, iteration: int) -> float:
        """Rate of an iteration. Moves `current_step` on: one step an evaluation for multistep."""
        p = self.param
        if p.lr_policy == "step":
            self.current_step = iteration // p.stepsize
        elif p.lr_policy == "multistep" and (
            self.current_step < len(p.stepvalue) and iteration >= p.stepvalue[self.current_step]
        ):
            self.current_step += 1
            log.info(
                "MultiStep Status: Iteration %d, step = %d",
                iteration,
                self.current_step,
                extra={"origin": "sgd_solver.cpp:50"},
            )
        return self._schedule(p, iteration, self.current_step)

    def peek(self, iteration: int) -> float:
        """Rate of an iteration, leaving `current_step` and the log alone."""
        p, step = self.param, self.current_step
        if p.lr_policy == "step":
            step = iteration // p.stepsize
        elif p.lr_policy == "multistep" and step < len(p.stepvalue):
            step += iteration >= p.stepvalue[step]
        return self._schedule(p, iteration, step)
