"""RMSProp (Tieleman and Hinton 2012)."""

from __future__ import annotations

from swcaffe.errors import ParameterError
from swcaffe.operators.update import Regularization, RmsPropUpdate, Update
from swcaffe.proto.messages import Message
from swcaffe.solver.updates._rule import UPDATE_RULES, UpdateRule

__all__ = ["RmsProp"]


@UPDATE_RULES.register("RMSProp")
class RmsProp(UpdateRule):
    """Reads rms_decay and delta; refuses momentum."""

    def __init__(self, param: Message) -> None:
        """Raises ParameterError for a momentum, or an rms_decay outside [0, 1)."""
        super().__init__(param)
        self._no_momentum()
        if not 0 <= param.rms_decay < 1:
            raise ParameterError(
                f"rms_decay must lie in [0, 1), got {param.rms_decay:g}",
                fix="give 0 or more and below 1",
            )

    def operator(self, count: int, regularization: Regularization) -> Update:
        """Moving mean of squares."""
        return RmsPropUpdate(
            count, regularization, rms_decay=self.param.rms_decay, delta=self.param.delta
        )
