"""The base of update rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from swcaffe.errors import ParameterError
from swcaffe.operators.update import Regularization, Update
from swcaffe.proto.messages import Message
from swcaffe.registry import Registry

__all__ = ["UPDATE_RULES", "UpdateRule"]


class UpdateRule(ABC):
    """How a gradient becomes a step: the operator for one parameter, and the rate it is given.

    Attributes are read from a SolverParameter once; the constructor refuses what Caffe refuses.
    """

    histories: ClassVar[int] = 1
    """Buffers for each parameter; snapshots hold the first of every parameter, then the second."""

    def __init__(self, param: Message) -> None:
        """Read the rule's fields. Raises ParameterError."""
        self.param = param

    @abstractmethod
    def operator(self, count: int, regularization: Regularization) -> Update:
        """The operator that updates a parameter of `count` elements."""

    def rate(self, rate: float, iteration: int) -> float:
        """What the operator is given as rate in an iteration whose learning rate is `rate`."""
        return rate

    def _no_momentum(self) -> None:
        if self.param.momentum:
            raise ParameterError(
                f"momentum is {self.param.momentum:g}, but {self.param.type} has none",
                fix="remove momentum from the solver",
            )


UPDATE_RULES: Registry[type[UpdateRule]] = Registry("solver type", ParameterError)
