"""The engine that computes as a Sunway machine does, and says what it would cost there."""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, get_args

from swcaffe.engine.engine import Candidates, Engine, Plan
from swcaffe.engine.sw26010.mpe import MpePlanner
from swcaffe.engine.sw26010.plan import Scheduled
from swcaffe.errors import EngineError
from swcaffe.execute.tile import CoreGroups
from swcaffe.machine import sw26010, toy  # noqa: F401  each registers its machine
from swcaffe.machine.spec import MACHINES, Machine
from swcaffe.operators.base import Operator
from swcaffe.schedule.template import TEMPLATES
from swcaffe.schedule.templates import (  # noqa: F401  each registers itself
    conv_im2col,
    conv_ldm,
    conv_weights,
    conv_weights_ldm,
    gemm,
    join,
    lrn,
    pooling,
    walk,
)

__all__ = ["Fidelity", "SunwayEngine", "create"]

Fidelity: TypeAlias = Literal["tile", "mesh"]

ARITHMETIC = {
    "tile": "float32 tile by tile out of the LDM",
    "mesh": "float32 in memory, float64 inside each kernel, CPE by CPE",
}


class SunwayEngine(Engine):
    """Operators with a schedule run as programs; all others count as the MPE's, run by the host."""

    name = "sw26010"

    def __init__(self, machine: Machine, fidelity: Fidelity, threads: int) -> None:
        """At tile fidelity `threads` host threads stand for core groups; at mesh all take turns."""
        super().__init__()
        self.machine, self.fidelity, self.threads = machine, fidelity, threads
        self.candidates = Candidates()
        groups = CoreGroups(machine, threads) if fidelity == "tile" else None
        for op_class, templates in TEMPLATES.items():
            self.candidates.add(op_class, Scheduled(templates, machine, groups))
        self._mpe = MpePlanner(machine, threads)

    def make_plan(self, op: Operator) -> Plan:
        """The first schedule that does not refuse, else the MPE."""
        candidate, refusals = self.candidates.choose(op)
        if isinstance(candidate, Scheduled):
            return candidate.plan(op)
        return self._mpe.plan(op, refusals)

    def describe(self) -> str:
        """Engine, fidelity, arithmetic, threads."""
        groups = f"{self.machine.core_groups} core groups in turn"
        threads = f"{self.threads} threads" if self.fidelity == "tile" else groups
        arithmetic = ARITHMETIC[self.fidelity]
        return f"{self.machine.name} at {self.fidelity} fidelity: {arithmetic}, {threads}"


def create(fidelity: str = "tile", threads: int = 0, machine: str = "sw26010") -> SunwayEngine:
    """An engine for a machine; 0 threads means one for each CPU this process may use."""
    if fidelity not in get_args(Fidelity):
        raise EngineError(f"unknown fidelity {fidelity!r}", fix="use tile or mesh")
    if threads < 0:
        raise EngineError(f"threads is {threads}", fix="give 0 (all CPUs) or a positive number")
    spec = MACHINES.get(machine)
    chosen: Fidelity = "mesh" if fidelity == "mesh" else "tile"
    return SunwayEngine(spec, chosen, threads or len(os.sched_getaffinity(0)))
