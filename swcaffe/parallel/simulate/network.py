"""Seconds of one message, and of adding what it brought. A network is groups with thin uplinks.

Inside a group (a supernode, a host) every node reaches every other at full rate; what leaves a
group shares its uplinks. So the time of a message depends on its size and on its *load*, the number
of messages that leave its group at the same time; 0 for one that stays inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from swcaffe.arrays import F64, I64

__all__ = ["AlphaBeta", "Measured", "Network"]


class Network(Protocol):
    """What the simulator asks."""

    @property
    def group_size(self) -> int:
        """Nodes of a full group."""

    @property
    def reduce_s_per_byte(self) -> float:
        """Adding a received byte."""

    def message_seconds(self, nbytes: F64, load: I64) -> F64:
        """Seconds of messages of `nbytes`, `load` of which leave the group at once."""


@dataclass(frozen=True, slots=True)
class AlphaBeta:
    """A start-up time and two rates.

    inside_s_per_byte  both directions busy
    across_s_per_byte  when all nodes of a full group talk to other groups; with fewer, as much
                       faster as their number allows, up to the inside rate
    """

    alpha_s: float
    inside_s_per_byte: float
    across_s_per_byte: float
    group_size: int
    reduce_s_per_byte: float = 0.0

    def message_seconds(self, nbytes: F64, load: I64) -> F64:
        """alpha + beta n."""
        across = self.across_s_per_byte * np.minimum(1.0, load / self.group_size)
        found: F64 = self.alpha_s + nbytes * np.maximum(self.inside_s_per_byte, across)
        return found


@dataclass(frozen=True, slots=True)
class Measured:
    """Times taken from a point-to-point benchmark, interpolated on logarithmic axes.

    nbytes    sizes, rising
    inside_s  seconds of a message of each size, both directions busy
    across_s  the same when all nodes of a full group talk to another group
    Beyond the last size the last rate holds; below the first, its time.
    """

    nbytes: tuple[float, ...]
    inside_s: tuple[float, ...]
    across_s: tuple[float, ...]
    group_size: int
    reduce_s_per_byte: float = 0.0

    def message_seconds(self, nbytes: F64, load: I64) -> F64:
        """The slower of the node's own link and its share of the uplinks."""
        inside = self._along(nbytes, self.inside_s)
        across = self._along(nbytes, self.across_s) * np.minimum(1.0, load / self.group_size)
        found: F64 = np.maximum(inside, across)
        return found

    def _along(self, nbytes: F64, seconds: tuple[float, ...]) -> F64:
        beyond = np.maximum(1.0, nbytes / self.nbytes[-1])
        sizes = np.log(np.maximum(nbytes, 1.0))
        found: F64 = np.exp(np.interp(sizes, np.log(self.nbytes), np.log(seconds))) * beyond
        return found
