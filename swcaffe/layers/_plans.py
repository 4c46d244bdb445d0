"""Plans made at first use, for gradients: a net that only runs forward never searches for them."""

from __future__ import annotations

from swcaffe.arrays import Array
from swcaffe.engine.engine import Engine, Plan
from swcaffe.operators.base import Operator

__all__ = ["Deferred"]


class Deferred:
    """Called like the plan of `op`, which the engine makes at the first call."""

    __slots__ = ("_engine", "_op", "_plan")

    def __init__(self, engine: Engine, op: Operator) -> None:
        """Remember what to plan."""
        self._engine, self._op = engine, op
        self._plan: Plan | None = None

    def __call__(self, *arrays: Array) -> None:
        """Run the plan on its inputs followed by its outputs."""
        if self._plan is None:
            self._plan = self._engine.plan(self._op)
        self._plan(*arrays)
