"""TanH."""

from __future__ import annotations

from swcaffe.layers._neuron import Neuron
from swcaffe.net.layer import LAYERS
from swcaffe.operators.activation import ActivationKind

__all__ = ["TanH"]


@LAYERS.register("TanH")
class TanH(Neuron):
    """top = tanh x."""

    def kind(self) -> tuple[ActivationKind, float]:
        """No parameters."""
        return "tanh", 0.0
