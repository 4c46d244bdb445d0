"""ELU."""

from __future__ import annotations

from swcaffe.layers._neuron import Neuron
from swcaffe.net.layer import LAYERS
from swcaffe.operators.activation import ActivationKind

__all__ = ["ELU"]


@LAYERS.register("ELU")
class ELU(Neuron):
    """top = x where x > 0, else alpha * (e^x - 1)."""

    def kind(self) -> tuple[ActivationKind, float]:
        """Reads elu_param."""
        return "elu", self.param.elu_param.alpha
