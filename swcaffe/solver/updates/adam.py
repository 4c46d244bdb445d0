"""Adam (Kingma and Ba 2015)."""

from __future__ import annotations

import math
from typing import ClassVar

from swcaffe.operators.update import AdamUpdate, Regularization, Update
from swcaffe.solver.updates._rule import UPDATE_RULES, UpdateRule

__all__ = ["Adam"]


@UPDATE_RULES.register("Adam")
class Adam(UpdateRule):
    """Reads momentum (beta1), momentum2 (beta2) and delta."""

    histories: ClassVar[int] = 2

    def operator(self, count: int, regularization: Regularization) -> Update:
        """Moving means of gradients and their squares."""
        p = self.param
        return AdamUpdate(count, regularization, beta1=p.momentum, beta2=p.momentum2, delta=p.delta)

    def rate(self, rate: float, iteration: int) -> float:
        """Corrected for moments that started at zero."""
        t = iteration + 1
        beta1, beta2 = self.param.momentum, self.param.momentum2
        return float(rate * math.sqrt(1 - beta2**t) / (1 - beta1**t))
