"""One training step on many nodes: computing, and exchanging gradients beside or after it.

Gradients become ready during backward and are exchanged one after the other, each by the faster of
a dense sum and, if they may be compressed, a gathering of messages. With one gradient that is ready
when computing ends, this is the packed exchange of Fang et al., "swCaffe" (CLUSTER 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swcaffe.parallel.allreduce import Groups
from swcaffe.parallel.simulate.allreduce import gather_cost, reduce_cost
from swcaffe.parallel.simulate.network import Network

__all__ = ["Compression", "Gradient", "Step", "training_step"]

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Gradient:
    """What is exchanged in one piece: its bytes, and when backward has finished it."""

    nbytes: float
    ready_s: float
    compressible: bool = True


@dataclass(frozen=True, slots=True)
class Compression:
    """Cost of sending a share of the elements, by RedSync's model (JPDC 2019).

    entry_bytes         of an index and a value; an index alone where one mean stands for all
    select_s_per_byte   of the dense gradient, on each node
    apply_s_per_entry   adding one received element; every node adds those of all
    """

    density: float = 0.001
    entry_bytes: float = 8.0
    select_s_per_byte: float = 0.0
    apply_s_per_entry: float = 0.0

    def seconds(self, nbytes: float, groups: Groups, network: Network) -> float:
        """Select, gather from all, add up."""
        entries = self.density * nbytes / _FLOAT_BYTES
        nodes = sum(map(len, groups))
        gathered = gather_cost(groups, self.entry_bytes * entries, network).seconds
        return nbytes * self.select_s_per_byte + gathered + nodes * entries * self.apply_s_per_entry


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of one step on `nodes` nodes; exchange_s counts also what computing hides."""

    nodes: int
    compute_s: float
    exchange_s: float
    total_s: float

    @property
    def share(self) -> float:
        """Of the step that is waiting for the exchange."""
        return 1 - self.compute_s / self.total_s

    @property
    def speed_up(self) -> float:
        """Throughput over that of one node, each with the same batch."""
        return self.nodes * self.compute_s / self.total_s


def training_step(
    compute_s: float,
    gradients: Sequence[Gradient],
    groups: Groups,
    network: Network,
    *,
    algorithm: str = "topology_aware",
    compression: Compression | None = None,
) -> Step:
    """Cost of a step that computes for `compute_s` and exchanges `gradients` in their order."""
    busy = end = 0.0
    for gradient in gradients:
        seconds = reduce_cost(algorithm, groups, gradient.nbytes, network).seconds
        if compression is not None and gradient.compressible:
            seconds = min(seconds, compression.seconds(gradient.nbytes, groups, network))
        busy += seconds
        end = max(end, gradient.ready_s) + seconds
    return Step(sum(map(len, groups)), compute_s, busy, max(compute_s, end))
