"""An engine that writes down which plans run, so that a profiler can say what a layer does."""

from __future__ import annotations

from swcaffe.arrays import Array
from swcaffe.engine.engine import Engine, Estimate, Plan
from swcaffe.operators.base import Operator

__all__ = ["RecordingEngine"]


class _RecordedPlan(Plan):
    def __init__(self, plan: Plan, calls: list[Plan]) -> None:
        super().__init__(plan.op, plan.route)
        self._plan, self._calls = plan, calls

    def __call__(self, *arrays: Array) -> None:
        self._calls.append(self._plan)
        self._plan(*arrays)

    def estimate(self) -> Estimate | None:
        return self._plan.estimate()

    def explain(self) -> str:
        return self._plan.explain()


class RecordingEngine(Engine):
    """Plans as another engine does; every run of a plan is appended to `calls`."""

    def __init__(self, engine: Engine) -> None:
        """Wrap `engine`."""
        super().__init__()
        self.name = engine.name
        self.calls: list[Plan] = []
        self._engine = engine

    def make_plan(self, op: Operator) -> Plan:
        """The other engine's plan, recorded when run."""
        return _RecordedPlan(self._engine.plan(op), self.calls)

    def take(self) -> list[Plan]:
        """The plans run since the last call, in order."""
        calls = list(self.calls)
        self.calls.clear()
        return calls

    def describe(self) -> str:
        """The other engine's line."""
        return self._engine.describe()
