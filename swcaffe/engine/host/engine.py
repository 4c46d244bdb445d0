"""The engine that computes on this computer's CPU."""

from __future__ import annotations

import os

from swcaffe.engine.engine import Candidates, Engine, Plan
from swcaffe.engine.host.activation import Activation
from swcaffe.engine.host.convolution import (
    Correlation,
    ReversedCorrelation,
    Scattering,
    WeightGradient,
)
from swcaffe.engine.host.plans import Workspace
from swcaffe.engine.host.team import Team
from swcaffe.errors import EngineError
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.base import Operator
from swcaffe.operators.convolution import ConvBackwardData, ConvBackwardWeights, ConvForward

__all__ = ["HostEngine", "create"]


class HostEngine(Engine):
    """Plans operators for the CPU; `threads` work on each."""

    name = "host"

    def __init__(self, threads: int) -> None:
        """At least one thread."""
        super().__init__()
        self.threads = threads
        self.candidates = Candidates()
        w = Workspace(Team(threads))
        for op_class in (ActivationForward, ActivationBackward):
            self.candidates.add(op_class, Activation(w))
        self.candidates.add(ConvForward, Correlation(w))
        self.candidates.add(ConvBackwardData, ReversedCorrelation(w), Scattering(w))
        self.candidates.add(ConvBackwardWeights, WeightGradient(w))

    def make_plan(self, op: Operator) -> Plan:
        """The plan of the first candidate that does not refuse."""
        candidate, _ = self.candidates.choose(op)
        return candidate.plan(op)

    def describe(self) -> str:
        """Engine, arithmetic and threads."""
        return f"host: float32, {self.threads} threads"


def create(threads: int = 0) -> HostEngine:
    """A host engine; 0 threads means one for each CPU this process may use."""
    if threads < 0:
        raise EngineError(f"threads is {threads}", fix="give 0 (all CPUs) or a positive number")
    return HostEngine(threads or len(os.sched_getaffinity(0)))
