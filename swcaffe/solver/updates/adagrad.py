"""AdaGrad (Duchi, Hazan and Singer 2011)."""

from __future__ import annotations

from swcaffe.operators.update import AdaGradUpdate, Regularization, Update
from swcaffe.proto.messages import Message
from swcaffe.solver.updates._rule import UPDATE_RULES, UpdateRule

__all__ = ["AdaGrad"]


@UPDATE_RULES.register("AdaGrad")
class AdaGrad(UpdateRule):
    """Reads delta; refuses momentum."""

    def __init__(self, param: Message) -> None:
        """Raises ParameterError for a momentum."""
        super().__init__(param)
        self._no_momentum()

    def operator(self, count: int, regularization: Regularization) -> Update:
        """Sum of squares."""
        return AdaGradUpdate(count, regularization, delta=self.param.delta)
