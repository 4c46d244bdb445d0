"""Operators without a schedule: the host engine computes them, and they are booked as MPE time."""

from __future__ import annotations

from swcaffe.arrays import Array
from swcaffe.cost.rates import mpe_seconds
from swcaffe.engine.engine import Engine, Estimate, Plan, create_engine
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator

__all__ = ["MpePlan", "MpePlanner"]


class MpePlan(Plan):
    """The host's plan, priced at what the management core would take."""

    def __init__(
        self, op: Operator, host: Plan, machine: Machine, refusals: list[tuple[str, str]]
    ) -> None:
        """`refusals` are (schedule, reason) of those that did not take the operator."""
        super().__init__(op, f"MPE: {host.route}")
        self._host, self._machine, self._refusals = host, machine, refusals

    def __call__(self, *arrays: Array) -> None:
        """Run the host's plan."""
        self._host(*arrays)

    def estimate(self) -> Estimate:
        """The larger of arithmetic and memory passes; the MPE has no DMA."""
        arithmetic, memory = mpe_seconds(self._machine, self.op)
        resources = {"MPE": arithmetic, "MPE memory": memory}
        return Estimate(max(arithmetic, memory), self.op.flops, 0, "MPE", resources)

    def chip_estimate(self) -> Estimate:
        """The same: one management core runs it while the other groups wait."""
        return self.estimate()

    def explain(self) -> str:
        """The route, and why each schedule refused."""
        reasons = "; ".join(f"{name} refuses: {reason}" for name, reason in self._refusals)
        return f"{self.op}: {self.route} ({reasons or 'no schedule for this operator'})"


class MpePlanner:
    """Makes MPE plans; the host engine is loaded at the first."""

    def __init__(self, machine: Machine, threads: int) -> None:
        """`threads` for the host engine."""
        self._machine, self._threads = machine, threads
        self._engine: Engine | None = None

    def plan(self, op: Operator, refusals: list[tuple[str, str]]) -> MpePlan:
        """The host's plan of `op`."""
        if self._engine is None:
            self._engine = create_engine("host", threads=self._threads)
        return MpePlan(op, self._engine.plan(op), self._machine, refusals)
