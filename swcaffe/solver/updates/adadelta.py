"""AdaDelta (Zeiler 2012)."""

from __future__ import annotations

from typing import ClassVar

from swcaffe.operators.update import AdaDeltaUpdate, Regularization, Update
from swcaffe.solver.updates._rule import UPDATE_RULES, UpdateRule

__all__ = ["AdaDelta"]


@UPDATE_RULES.register("AdaDelta")
class AdaDelta(UpdateRule):
    """Reads momentum (the averaging factor) and delta."""

    histories: ClassVar[int] = 2

    def operator(self, count: int, regularization: Regularization) -> Update:
        """Moving means of squared gradients and steps."""
        return AdaDeltaUpdate(
            count, regularization, momentum=self.param.momentum, delta=self.param.delta
        )
