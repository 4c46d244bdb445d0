"""What a compressor is. It keeps nothing of what it leaves out: that is `residual.py`'s business.

Two kinds, by what ranks can do with each other's messages. *Gathering*: every rank sends a message
of its own to all, and each adds up what all messages stand for. *Summing*: all ranks agree on what
is sent, so that small dense arrays are summed over the ranks.

Between iterations a compressor lives in its state, a dictionary of arrays, one for each tensor;
compressors themselves do not change.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, TypeAlias

import numpy as np

from swcaffe.arrays import F32, I64, U8, Array, Shape
from swcaffe.errors import ParameterError
from swcaffe.registry import Registry

__all__ = ["COMPRESSORS", "Compressor", "Gathering", "State", "Summing", "entries_kept"]

State: TypeAlias = dict[str, Array]


class Compressor(ABC):
    """Base of both kinds.

    density  the share of elements to send, for those that choose; others ignore it
    seed     of random choices, the same on all ranks
    """

    name: ClassVar[str]

    def __init__(self, density: float = 0.001, seed: int = 0) -> None:
        """Raises ParameterError unless 0 < density <= 1."""
        if not 0 < density <= 1:
            raise ParameterError(
                f"density {density:g} of {self.name}: 0 < density <= 1",
                fix="0.001 sends one element in a thousand",
            )
        self.density = density
        self.seed = seed

    def with_density(self, density: float) -> Compressor:
        """The same compressor sending another share."""
        return type(self)(density, self.seed)

    def new_state(self, shape: Shape, name: str = "") -> State:
        """The state of a tensor that was never sent; by default there is none to keep."""
        return {}


class Gathering(Compressor):
    """Each rank's message stands for a vector of its own."""

    code: ClassVar[int]
    """First number of its messages after the magic one: messages of another kind are refused."""

    @abstractmethod
    def encode(self, flat: F32, state: State) -> U8:
        """The message for `flat`, which it does not change; `state` moves on by one iteration.

        Raises NumericsError if `flat` is not finite.
        """

    @abstractmethod
    def decode(self, message: U8, out: F32, factor: float = 1.0) -> None:
        """Add `factor` times what `message` stands for to `out`.

        Raises ParallelError, with `out` untouched, if it is no message for a tensor of this size.
        """

    def sent(self, message: U8, count: int) -> I64 | None:
        """Places of the elements a message speaks of; None: all."""
        return None


class Summing(Compressor):
    """All ranks send the same parts of their tensors."""

    @abstractmethod
    def steps(self, flat: F32, state: State, total: F32, sent: F32) -> Iterator[Array]:
        """Yield arrays to be summed over all ranks in place, one after the other.

        total  afterwards holds the sum of what was sent by all ranks
        sent   afterwards holds what this rank sent
        """

    def places(self, state: State, count: int) -> I64 | None:
        """Places of the elements that the last `steps` spoke of; None: all."""
        return None


COMPRESSORS: Registry[type[Compressor]] = Registry("compressor", ParameterError)
"""Name -> class."""


def entries_kept(count: int, density: float) -> int:
    """How many of `count` elements a density keeps: at least one, rounded up."""
    return min(count, max(1, math.ceil(np.float64(count) * density)))
