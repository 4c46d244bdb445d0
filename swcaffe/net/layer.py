"""Layer: the base class, its registry, and what a net tells a layer about its surroundings."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np

from swcaffe.arrays import Array
from swcaffe.engine.engine import Engine
from swcaffe.errors import DataError, NetError
from swcaffe.net.blob import Blob
from swcaffe.proto.messages import Message
from swcaffe.registry import Registry
from swcaffe.streams import stream

__all__ = [
    "LAYERS",
    "Arity",
    "Blobs",
    "Epoch",
    "ItemError",
    "Layer",
    "LayerContext",
    "Phase",
    "at_least",
    "between",
    "exactly",
]

Blobs: TypeAlias = Sequence[Blob]


class Phase(enum.IntEnum):
    """Caffe's phases, with its numbers."""

    TRAIN = 0
    TEST = 1


@dataclass(frozen=True, slots=True)
class Arity:
    """How many bottoms or tops a layer takes; `most` None is no limit."""

    least: int
    most: int | None

    def check(self, count: int, what: str) -> None:
        """Raise NetError unless `count` is allowed."""
        if count < self.least or (self.most is not None and count > self.most):
            raise NetError(
                f"takes {self} {what}, got {count}", fix="add or remove bottom and top lines"
            )

    def __str__(self) -> str:
        """`2`, `at least 1`, `1 to 2`."""
        if self.most is None:
            return f"at least {self.least}"
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


class ItemError(DataError):
    """An item of the batch that a layer cannot use; the net adds the record it was made from."""

    def __init__(self, message: str, *, item: int = 0, where: str = "", fix: str = "") -> None:
        """`item` counts from the start of the batch."""
        super().__init__(message, where=where, fix=fix)
        self.item = item


def exactly(n: int) -> Arity:
    """`n`, no more and no less."""
    return Arity(n, n)


def at_least(n: int) -> Arity:
    """`n` or more."""
    return Arity(n, None)


def between(least: int, most: int) -> Arity:
    """`least` to `most`."""
    return Arity(least, most)


@dataclass(frozen=True, slots=True)
class LayerContext:
    """What surrounds a layer.

    engine        plans operators
    phase         of the net, or of the layer if its prototxt names one
    seed          of all random draws of the net
    rank, size    this process among those that train together
    index         position in the net
    bad_records   "error" or "skip": what data layers do with unreadable records
    overwriters   types of later layers that work in place on a top of this one: a layer whose
                  gradient reads its top, or that shares memory, then keeps a copy
    """

    engine: Engine
    phase: Phase = Phase.TEST
    seed: int = 0
    rank: int = 0
    size: int = 1
    index: int = 0
    bad_records: str = "error"
    overwriters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Epoch:
    """Records of a data set, and how many a batch takes."""

    records: int
    batch: int


class Layer(ABC):
    """One node of a net. Subclasses are registered under Caffe's type string.

    `setup` reads parameters and makes weights (once); `reshape` fixes shapes and makes plans (once
    per set of bottom shapes); `forward` and `backward` only run. Parameter gradients are added to
    what is there; bottom gradients are overwritten.
    """

    bottoms: ClassVar[Arity]
    tops: ClassVar[Arity]
    equal_bottoms_and_tops: ClassVar[bool] = False
    is_loss: ClassVar[bool] = False
    """Loss layers get loss_weight 1 when none is given, and a top when the prototxt lists none."""
    in_place: ClassVar[bool] = False
    """Whether a top may be the bottom of the same index, with right values and gradients."""

    def __init__(self, param: Message, context: LayerContext) -> None:
        """Keep a LayerParameter and the surroundings; blobs stored in `param` become weights."""
        self.param = param
        self.name: str = param.name
        self.type: str = param.type
        self.context = context
        self.engine = context.engine
        self.phase = context.phase
        self.blobs: list[Blob] = []
        self.param_propagate_down: list[bool] = []
        self.records: list[str] = []
        """Names of the records in the tops, in data layers that know them."""
        self._draws: dict[str, int] = {}

    @property
    def title(self) -> str:
        """`layer "conv1" (Convolution)`, as messages name it."""
        return f'layer "{self.name}" ({self.type})'

    @abstractmethod
    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read and check parameters, make and fill weights. Raises ParameterError, ShapeError."""

    @abstractmethod
    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Set the tops' shapes and make plans. Raises ShapeError."""

    @abstractmethod
    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Compute the tops' data."""

    @abstractmethod
    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Overwrite the diff of each bottom whose flag is set; add to the weights' diffs."""

    def allow_force_backward(self, bottom: int) -> bool:
        """Whether force_backward applies to a bottom; not to labels."""
        return not (self.is_loss and bottom == 1)

    def rng(self, purpose: str) -> np.random.Generator:
        """A generator for the next draw for `purpose`; how many were taken is part of `state`."""
        index = self._draws.get(purpose, 0)
        self._draws[purpose] = index + 1
        return stream(self.context.seed, f"{self.name}/{purpose}", index)

    def state(self) -> dict[str, Array]:
        """What a snapshot must keep beside the weights so that a resumed run continues exactly."""
        return {f"draws/{k}": np.array(v, np.int64) for k, v in self._draws.items()}

    def load_state(self, state: dict[str, Array]) -> None:
        """Continue from `state`."""
        self._draws = {
            key.removeprefix("draws/"): int(value)
            for key, value in state.items()
            if key.startswith("draws/")
        }

    def epoch(self) -> Epoch | None:
        """Size of the data set this layer reads, and of its batch; None for all other layers."""
        return None

    def start_pass(self) -> None:
        """Read each record once from now on, the last batch being smaller, then nothing."""
        raise NetError(f"{self.title} reads no data set", fix="ask a layer that reads one")

    def left(self) -> int:
        """Records of the pass that are still to come."""
        raise NetError(f"{self.title} reads no data set", fix="ask a layer that reads one")

    def summary(self) -> str:
        """What there is to say when the net has run, in one line; nothing for most layers."""
        return ""

    def close(self) -> None:  # noqa: B027  nothing to release is the usual case
        """Release files and threads; called once when the net is no longer needed."""


LAYERS: Registry[type[Layer]] = Registry("layer type", NetError)
