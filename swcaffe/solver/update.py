"""Updater: clips, scales and applies gradients, one fused operator for each parameter."""

from __future__ import annotations

import logging
import math

import numpy as np

from swcaffe.arrays import F32
from swcaffe.engine.engine import Engine, Plan
from swcaffe.errors import ParameterError, SnapshotError
from swcaffe.log import number
from swcaffe.net.net import Net
from swcaffe.operators.update import Regularization
from swcaffe.proto.messages import Message
from swcaffe.registry import Registry
from swcaffe.solver.updates import UPDATE_RULES

__all__ = ["REGULARIZATIONS", "Updater"]

log = logging.getLogger(__name__)

REGULARIZATIONS: Registry[Regularization] = Registry("regularization_type", ParameterError)
REGULARIZATIONS.register("L1")("L1")
REGULARIZATIONS.register("L2")("L2")


class Updater:
    """The update rule of a solver, bound to the learnable parameters of its net."""

    def __init__(self, param: Message, net: Net, engine: Engine) -> None:
        """Choose the rule and allocate histories. Raises ParameterError."""
        self.param = param
        self.rule = UPDATE_RULES.get(param.type)(param)
        self._regularization = REGULARIZATIONS.get(param.regularization_type)
        self._params = net.learnable_params
        self._plans: list[Plan] = [
            engine.plan(self.rule.operator(p.blob.count, self._regularization))
            for p in self._params
        ]
        self._hyper = np.zeros(3, np.float32)
        self._histories = [
            [np.zeros(p.blob.shape, np.float32) for p in self._params]
            for _ in range(self.rule.histories)
        ]

    def gradients_finite(self) -> bool:
        """Whether no gradient holds a NaN or infinity."""
        for p in self._params:
            diff = p.blob.diff.reshape(-1)
            # a finite sum of squares proves it in one pass; only overflow needs the second look
            if not math.isfinite(float(np.dot(diff, diff))) and not np.isfinite(diff).all():
                return False
        return True

    def _scale(self) -> float:
        """1 / iter_size, times the clipping factor of the whole gradient's norm."""
        scale = 1.0 / int(self.param.iter_size)
        bound = float(self.param.clip_gradients)
        if bound < 0:
            return scale
        squares = 0.0
        for p in self._params:
            diff = p.blob.diff.reshape(-1).astype(np.float64)
            squares += float(np.dot(diff, diff))
        norm = math.sqrt(squares)
        if norm <= bound:
            return scale
        log.info(
            "Gradient clipping: scaling down gradients (L2 norm %s > %s) by scale factor %s",
            number(norm),
            number(bound),
            number(bound / norm),
            extra={"origin": "sgd_solver.cpp:96"},
        )
        return scale * bound / norm

    def apply(self, rate: float, iteration: int) -> None:
        """Update every learnable parameter whose lr_mult is not 0."""
        scale = self._scale()
        rate = self.rule.rate(rate, iteration)
        for i, (p, plan) in enumerate(zip(self._params, self._plans, strict=True)):
            decay = self.param.weight_decay * p.decay_mult
            self._hyper[:] = (rate * p.lr_mult, decay, scale)
            histories = [buffers[i] for buffers in self._histories]
            data = p.blob.data
            plan(self._hyper, data, p.blob.diff, *histories, data, *histories)

    def histories(self) -> list[F32]:
        """Copies of the buffers: the first of every parameter, then the second."""
        return [h.copy() for buffers in self._histories for h in buffers]

    def load_histories(self, histories: list[F32], origin: str) -> None:
        """Continue from saved buffers. Raises SnapshotError if they are not this solver's."""
        expected = [h for buffers in self._histories for h in buffers]
        if len(histories) != len(expected):
            raise SnapshotError(
                f"{origin} holds {len(histories)} history blobs, this solver ({self.param.type}, "
                f"{len(self._params)} parameters) has {len(expected)}",
                fix="resume with the solver type and net that wrote it, or start from its weights",
            )
        for i, (saved, buffer) in enumerate(zip(histories, expected, strict=True)):
            if saved.size != buffer.size:
                raise SnapshotError(
                    f"{origin}: history blob {i} is {saved.shape}, the parameter is {buffer.shape}",
                    fix="resume with the net that wrote it, or start from its weights",
                )
            buffer[...] = saved.reshape(buffer.shape)
