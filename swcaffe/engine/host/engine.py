"""The engine that computes on this computer's CPU."""

from __future__ import annotations

import os

from swcaffe.engine.engine import Candidates, Engine, Plan
from swcaffe.errors import EngineError
from swcaffe.operators.base import Operator

__all__ = ["HostEngine", "create"]


class HostEngine(Engine):
    """Plans operators for the CPU; `threads` work on each."""

    name = "host"

    def __init__(self, threads: int) -> None:
        """At least one thread."""
        super().__init__()
        self.threads = threads
        self.candidates = Candidates()

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
