"""Sums over all ranks as lists of rounds of messages, run here and priced in `simulate`.

A vector is cut into one block a rank. An algorithm is a generator of Rounds, each a table of
messages (source, target, blocks) that may all be under way at once; in the first half what arrives
is added, in the second it replaces. The table holds all ranks, so no rank can wait for a message
that nobody sends, and a simulator reads the same rounds that real ranks run.

Each block is added up along one fixed path and then copied, so results do not depend on timing and
are the same bits on every rank.

[Thakur 2005]  Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
               MPICH", IJHPCA 19: ring, recursive halving and doubling
[Fang 2019]    J. Fang, doctoral thesis, Tsinghua University, 7.3: ranks dealt over supernodes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from swcaffe.arrays import I64, Array
from swcaffe.errors import UsageError, unknown_name
from swcaffe.parallel.communicator import Communicator, Request

__all__ = ["ALGORITHMS", "Algorithm", "Groups", "Round", "allreduce", "block_starts", "rounds"]

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Ranks that share a supernode or a host; every rank is in one group."""


@dataclass(frozen=True, slots=True)
class Round:
    """Messages that may all be under way at once; one row a message.

    messages  (n, 4): source rank, target rank, first block, end of blocks
    add       whether the target adds what arrives to what it has, or overwrites it
    """

    messages: I64
    add: bool


Algorithm: TypeAlias = Callable[[Groups], Iterator[Round]]


def _round(rows: Sequence[tuple[int, int, int, int]] | I64, add: bool) -> Round:
    return Round(np.asarray(rows, np.int64).reshape(-1, 4), add)


def _mirrored(halves: list[Round]) -> Iterator[Round]:
    """Reduce-scatter rounds, then the same messages backwards as the allgather."""
    yield from halves
    for one in reversed(halves):
        yield _round(one.messages[:, [1, 0, 2, 3]], add=False)


def ring(groups: Groups) -> Iterator[Round]:
    """2 (p - 1) rounds of one block to the right neighbour; each moves 1/p of the vector."""
    size = sum(map(len, groups))
    rank = np.arange(size)
    for step in range(2 * (size - 1)):
        block = (rank - step) % size
        rows = np.stack([rank, (rank + 1) % size, block, block + 1], axis=1)
        yield _round(rows, add=step < size - 1)


def _halving(order: Sequence[int]) -> list[Round]:
    """Reduce-scatter: the rank at place i of `order` ends with the sum of block i.

    A group of places halves, large messages first; place i of the lower half trades with place i of
    the upper one. Of an odd number the last place of the lower half only sends, so any number of
    ranks works in ceil(log2 p) rounds, and a power of two gives the textbook's messages.
    """
    spans, found = [(0, len(order))], []
    while any(stop - start > 1 for start, stop in spans):
        rows, halves = [], []
        for start, stop in spans:
            middle = (start + stop + 1) // 2
            halves += [(start, middle), (middle, stop)] if middle < stop else [(start, stop)]
            for low in range(start, middle if middle < stop else start):
                high = min(low - start + middle, stop - 1)
                rows.append((order[low], order[high], middle, stop))
                if low - start + middle < stop:
                    rows.append((order[high], order[low], start, middle))
        found.append(_round(rows, add=True))
        spans = halves
    return found


def halving_doubling(groups: Groups) -> Iterator[Round]:
    """2 ceil(log2 p) rounds between ranks in their own order: largest messages to the far half."""
    return _mirrored(_halving(sorted(rank for group in groups for rank in group)))


def _dealt(groups: Groups) -> list[int]:
    """Ranks in the order in which they are dealt from the groups: 0, 4, 1, 5, … for two of four."""
    longest = max(map(len, groups))
    return [group[i] for i in range(longest) for group in groups if i < len(group)]


def topology_aware(groups: Groups) -> Iterator[Round]:
    """Halving and doubling over dealt ranks: only the smallest messages leave a group."""
    return _mirrored(_halving(_dealt(groups)))


def hierarchical(groups: Groups) -> Iterator[Round]:
    """Sum within each group, then between groups, then spread within: each link carries its least.

    Each of the q members that every group has owns 1/q of the vector; members beyond q hand theirs
    to one of these first and get the sum back last.
    """
    owners = min(map(len, groups))
    size = sum(map(len, groups))
    shares = [(size * i // owners, size * (i + 1) // owners) for i in range(owners)]
    handed = [
        _round([(rank, group[i % owners], 0, size)], add=True)
        for group in groups
        for i, rank in enumerate(group)
        if i >= owners
    ]
    within = [
        _round(
            [
                (group[i], group[(i + step) % owners], *shares[(i + step) % owners])
                for group in groups
                for i in range(owners)
            ],
            add=True,
        )
        for step in range(1, owners)
    ]
    across = [_halving_within([g[i] for g in groups], *share) for i, share in enumerate(shares)]
    between = [
        _round(np.concatenate([one.messages for one in step]), add=True)
        for step in zip(*across, strict=True)
    ]
    return _mirrored(handed + within + between)


def _halving_within(order: Sequence[int], first: int, end: int) -> Iterator[Round]:
    """`_halving` of blocks first … end only, scaled from one block a place."""
    for one in _halving(order):
        rows = one.messages.copy()
        rows[:, 2:] = first + rows[:, 2:] * (end - first) // len(order)
        yield _round(rows, add=True)


ALGORITHMS: dict[str, Algorithm] = {
    "ring": ring,
    "halving_doubling": halving_doubling,
    "topology_aware": topology_aware,
    "hierarchical": hierarchical,
}
"""Name -> rounds for given groups. "native" is the communicator's own method."""


def rounds(name: str, groups: Groups) -> Iterator[Round]:
    """The rounds of an algorithm; UsageError for an unknown name or groups that leave gaps."""
    ranks = sorted(rank for group in groups for rank in group)
    if ranks != list(range(len(ranks))) or not all(groups):
        raise UsageError(
            f"groups {groups} are not a partition of ranks 0 … n - 1",
            fix="name every rank in one group, and no empty group",
        )
    try:
        return ALGORITHMS[name](groups)
    except KeyError:
        raise UsageError(
            unknown_name("allreduce algorithm", name, [*ALGORITHMS, "native"]),
            fix="give one of these",
        ) from None


def block_starts(count: int, blocks: int) -> I64:
    """(blocks + 1,): where each block of a vector of `count` elements starts; sizes differ by 1."""
    return np.arange(blocks + 1, dtype=np.int64) * count // blocks


Part: TypeAlias = tuple[list[tuple[int, int, int]], list[tuple[int, int, int]], bool]


@lru_cache(maxsize=64)
def _part(name: str, groups: Groups, rank: int) -> list[Part]:
    """What one rank does: per round (sends, receives, add), each (peer, first block, end)."""
    found = []
    for one in rounds(name, groups):
        sends = [(int(m[1]), int(m[2]), int(m[3])) for m in one.messages if m[0] == rank]
        receives = [(int(m[0]), int(m[2]), int(m[3])) for m in one.messages if m[1] == rank]
        if sends or receives:
            found.append((sends, receives, one.add))
    return found


def allreduce(
    comm: Communicator,
    data: Array,
    algorithm: str = "ring",
    groups: Groups | None = None,
    what: str = "allreduce",
) -> None:
    """Sum the flat `data` over all ranks in place, the same bits on each of them.

    data    any type that adds; MPI's own sum knows no float16, halving and doubling then stands in
    groups  which ranks are near each other; one group when not given
    what    the tensor's name, for time-outs
    Raises UsageError for an unknown algorithm or wrong groups, PeerTimeoutError naming rank and
    tensor.
    """
    if algorithm == "native" and data.dtype == np.float16:
        algorithm = "halving_doubling"
    if algorithm == "native":
        comm.native_allreduce(data, what)
        return
    groups = groups or (tuple(range(comm.size)),)
    if sum(map(len, groups)) != comm.size:
        raise UsageError(f"groups {groups} for {comm.size} ranks", fix="name every rank once")
    starts = block_starts(data.size, comm.size)
    mine = _part(algorithm, groups, comm.rank)
    landing = [sum(starts[e] - starts[f] for _, f, e in part[1]) for part in mine if part[2]]
    scratch = np.empty(max(landing, default=0), data.dtype)
    for sends, receives, add in mine:
        _run_round(comm, data, scratch, starts, sends, receives, add, what)


def _run_round(
    comm: Communicator,
    data: Array,
    scratch: Array,
    starts: I64,
    sends: Sequence[tuple[int, int, int]],
    receives: Sequence[tuple[int, int, int]],
    add: bool,
    what: str,
) -> None:
    """One round: receives in the order of the table, so that sums do not depend on arrival."""
    pending: list[tuple[Request, int]] = []
    sums: list[tuple[slice, Array, Request, int]] = []
    used = 0
    for source, first, end in receives:
        place = slice(int(starts[first]), int(starts[end]))
        length = place.stop - place.start
        if length and add:
            landing = scratch[used : used + length]
            used += length
            sums.append((place, landing, comm.irecv(landing.view(np.uint8), source), source))
        elif length:
            pending.append((comm.irecv(data[place].view(np.uint8), source), source))
    for to, first, end in sends:
        part = data[starts[first] : starts[end]]
        if part.size:
            pending.append((comm.isend(part.view(np.uint8), to), to))
    for place, landing, request, source in sums:
        comm.wait([(request, source)], what)
        data[place] += landing
    comm.wait(pending, what)
