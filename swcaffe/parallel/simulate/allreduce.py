"""Run an algorithm's rounds on a network model, message by message.

Every rank has a clock. A message starts when both its ends are there, lasts as long as the network
says, and then the target adds it. A link that carries several messages of a round carries them one
after the other. Ranks do not wait for rounds, only for each other, so a late rank delays those that
need it and no others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import F64, I64
from swcaffe.parallel.allreduce import ALGORITHMS, Groups, Round, block_starts, rounds
from swcaffe.parallel.simulate.network import Network

__all__ = ["Cost", "fastest", "gather_cost", "groups_of", "reduce_cost", "run_rounds"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What an exchange takes.

    seconds     until the last rank is done
    sent_bytes  by all ranks; of these, across_bytes left a group
    messages    of all ranks
    """

    seconds: float
    sent_bytes: float
    across_bytes: float
    messages: int


def groups_of(nodes: int, group_size: int) -> Groups:
    """Groups filled one after the other; the last may be smaller."""
    return tuple(
        tuple(range(start, min(start + group_size, nodes))) for start in range(0, nodes, group_size)
    )


def run_rounds(
    steps: Iterable[Round],
    starts: F64 | I64,
    groups: Groups,
    network: Network,
    ready: F64 | None = None,
) -> Cost:
    """Cost of rounds over blocks whose bounds in bytes are `starts`.

    ready  when each rank begins, in seconds; all at 0 if not given
    """
    size = sum(map(len, groups))
    home = np.empty(size, np.int64)
    for number, group in enumerate(groups):
        home[list(group)] = number
    clock = np.zeros(size) if ready is None else ready.copy()
    sent = across = 0.0
    messages = 0
    for one in steps:
        source, target, first, end = one.messages.T
        nbytes = np.asarray(starts[end] - starts[first], np.float64)
        leaves = home[source] != home[target]
        seconds = _seconds(network, nbytes, home[source], source, target, leaves)
        arrival = np.maximum(clock[source], clock[target]) + seconds
        np.maximum.at(clock, source, arrival)
        np.maximum.at(clock, target, arrival)
        if one.add:
            np.add.at(clock, target, nbytes * network.reduce_s_per_byte)
        sent += float(nbytes.sum())
        across += float(nbytes[leaves].sum())
        messages += len(nbytes)
    return Cost(float(clock.max()), sent, across, messages)


def _seconds(
    network: Network, nbytes: F64, home: I64, source: I64, target: I64, leaves: F64
) -> F64:
    """Seconds of the messages of one round, with what they share their links with."""
    out = np.bincount(source, nbytes)[source]
    into = np.bincount(target, nbytes)[target]
    load = np.where(leaves, np.bincount(home, leaves)[home], 0).astype(np.int64)
    return network.message_seconds(np.maximum(out, into), load)


def reduce_cost(
    algorithm: str, groups: Groups, nbytes: float, network: Network, ready: F64 | None = None
) -> Cost:
    """Cost of an allreduce of `nbytes` over the nodes of `groups`."""
    size = sum(map(len, groups))
    starts = block_starts(round(nbytes), size)
    return run_rounds(rounds(algorithm, groups), starts, groups, network, ready)


def gather_cost(groups: Groups, nbytes_each: float, network: Network) -> Cost:
    """Cost of gathering messages of `nbytes_each` from all ranks on all, by doubling."""
    size = sum(map(len, groups))
    steps = (one for one in rounds("topology_aware", groups) if not one.add)
    starts: F64 = np.linspace(0.0, size * nbytes_each, size + 1)
    return run_rounds(steps, starts, groups, network)


def fastest(groups: Groups, nbytes: float, network: Network) -> str:
    """The name of the algorithm that the model finds fastest; the first of equals."""
    costs = {name: reduce_cost(name, groups, nbytes, network).seconds for name in ALGORITHMS}
    return min(costs, key=lambda name: costs[name])
