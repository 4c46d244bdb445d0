"""Nesterov's accelerated gradient."""

from __future__ import annotations

from swcaffe.operators.update import NesterovUpdate, Regularization, Update
from swcaffe.solver.updates._rule import UPDATE_RULES, UpdateRule

__all__ = ["Nesterov"]


@UPDATE_RULES.register("Nesterov")
class Nesterov(UpdateRule):
    """Reads momentum."""

    def operator(self, count: int, regularization: Regularization) -> Update:
        """Look-ahead momentum."""
        return NesterovUpdate(count, regularization, momentum=self.param.momentum)
