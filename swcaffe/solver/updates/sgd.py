"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from swcaffe.operators.update import Regularization, SgdUpdate, Update
from swcaffe.solver.updates._rule import UPDATE_RULES, UpdateRule

__all__ = ["Sgd"]


@UPDATE_RULES.register("SGD")
class Sgd(UpdateRule):
    """Reads momentum."""

    def operator(self, count: int, regularization: Regularization) -> Update:
        """Heavy ball."""
        return SgdUpdate(count, regularization, momentum=self.param.momentum)
