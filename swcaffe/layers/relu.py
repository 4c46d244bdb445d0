"""ReLU."""

from __future__ import annotations

from swcaffe.layers._neuron import Neuron
from swcaffe.net.layer import LAYERS
from swcaffe.operators.activation import ActivationKind

__all__ = ["ReLU"]


@LAYERS.register("ReLU")
class ReLU(Neuron):
    """top = max(x, 0) + negative_slope * min(x, 0); the slope at 0 is negative_slope."""

    def kind(self) -> tuple[ActivationKind, float]:
        """Reads relu_param."""
        return "relu", self.param.relu_param.negative_slope
