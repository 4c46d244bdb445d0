"""Engine and Plan: an operator is planned once per shape and run many times.

An engine has, for each operator class, an ordered list of candidates. The first that does not
refuse makes the plan; each refusal says why and goes to the log `swcaffe.dispatch`. The operator's
own numpy reference is always the last candidate, so every engine can run every operator.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from swcaffe.arrays import Array
from swcaffe.errors import EngineError, unknown_name
from swcaffe.operators.base import Operator

__all__ = ["Candidate", "Candidates", "Engine", "Estimate", "Plan", "Refusal", "create_engine"]

log = logging.getLogger("swcaffe.dispatch")

ENGINES = {"host": "swcaffe.engine.host", "sw26010": "swcaffe.engine.sw26010"}
"""Engine name -> package with `create(**options)`; loaded when asked for by name."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one run of a plan would cost on the modelled machine.

    seconds    predicted time
    bound      the limiting resource: "P0", "DMA", "register bus", "MPE", "launch" …
    resources  seconds by resource, before overlap
    """

    seconds: float
    flops: int
    dma_bytes: int
    bound: str
    resources: dict[str, float] = field(default_factory=dict)


class Plan(ABC):
    """One operator, ready to run on arrays of its shapes."""

    def __init__(self, op: Operator, route: str) -> None:
        """`route` says who computes: "host: im2col", "sw26010: gemm", "MPE: host: max pooling"."""
        self.op = op
        self.route = route

    @abstractmethod
    def __call__(self, *arrays: Array) -> None:
        """Run on the operator's inputs followed by its outputs.

        All arrays are C-contiguous and have the operands' dtypes and counts; shapes with the same
        count are accepted. Outputs are overwritten, or added to where the operand says so.
        """

    def estimate(self) -> Estimate | None:
        """Cost on the modelled machine; None for an engine that models none."""
        return None

    def explain(self) -> str:
        """A paragraph for people: the route, and why earlier candidates refused."""
        return f"{self.op}: {self.route}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a candidate cannot plan an operator."""

    reason: str


class Candidate(Protocol):
    """One way to compute operators of a class. `supports` has no side effects."""

    name: str

    def supports(self, op: Operator) -> Refusal | None:
        """None, or the reason against."""

    def plan(self, op: Operator) -> Plan:
        """The plan of an operator that `supports` accepted."""


class ReferencePlan(Plan):
    """The operator's definition in numpy."""

    def __call__(self, *arrays: Array) -> None:
        """Run the definition; as in every plan, what is not finite is not remarked on here."""
        with np.errstate(all="ignore"):
            self.op.run_reference(*arrays)


class Reference:
    """The last candidate of every list."""

    name = "reference"

    def supports(self, op: Operator) -> Refusal | None:
        """Every operator has a definition."""
        return None

    def plan(self, op: Operator) -> Plan:
        """The definition as a plan."""
        return ReferencePlan(op, self.name)


class Candidates:
    """Operator class -> candidates, best first."""

    def __init__(self) -> None:
        """No candidates yet: everything falls to the reference."""
        self._lists: dict[type[Operator], list[Candidate]] = {}

    def add(self, op_class: type[Operator], *candidates: Candidate) -> None:
        """Append `candidates` behind those already there."""
        self._lists.setdefault(op_class, []).extend(candidates)

    def choose(self, op: Operator) -> tuple[Candidate, list[tuple[str, str]]]:
        """The first candidate that does not refuse, and (name, reason) of those that did."""
        refusals: list[tuple[str, str]] = []
        for candidate in self._lists.get(type(op), []):
            refusal = candidate.supports(op)
            if refusal is None:
                return candidate, refusals
            refusals.append((candidate.name, refusal.reason))
            log.debug("%s refuses %s: %s", candidate.name, op, refusal.reason)
        return Reference(), refusals


class Engine(ABC):
    """Plans operators, each once; layers never ask which engine they have."""

    name: str

    def __init__(self) -> None:
        """An empty plan cache."""
        self._plans: dict[Operator, Plan] = {}

    def plan(self, op: Operator) -> Plan:
        """The plan of `op`, made at the first request."""
        found = self._plans.get(op)
        if found is None:
            found = self._plans[op] = self.make_plan(op)
        return found

    @abstractmethod
    def make_plan(self, op: Operator) -> Plan:
        """A new plan; called once per operator."""

    @abstractmethod
    def describe(self) -> str:
        """One line for the log: engine, fidelity, arithmetic, threads."""


def create_engine(name: str, **options: object) -> Engine:
    """The engine called `name` ("host", "sw26010"), made by its package's `create(**options)`.

    Raises EngineError for a name, an option or a value that does not exist.
    """
    if name not in ENGINES:
        raise EngineError(unknown_name("engine", name, ENGINES), fix="give one of these")
    create = importlib.import_module(ENGINES[name]).create
    known = list(inspect.signature(create).parameters)
    for option in options:
        if option not in known:
            raise EngineError(
                unknown_name(f"option of engine {name}", option, known), fix="drop it"
            )
    engine: Engine = create(**options)
    return engine
