"""Sigmoid."""

from __future__ import annotations

from swcaffe.layers._neuron import Neuron
from swcaffe.net.layer import LAYERS
from swcaffe.operators.activation import ActivationKind

__all__ = ["Sigmoid"]


@LAYERS.register("Sigmoid")
class Sigmoid(Neuron):
    """top = 1 / (1 + e^-x)."""

    def kind(self) -> tuple[ActivationKind, float]:
        """No parameters."""
        return "sigmoid", 0.0
