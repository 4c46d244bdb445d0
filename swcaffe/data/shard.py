"""Which record is item t of this rank: sequential or shuffled, striped over ranks, resumable.

The stream all ranks share is endless: pass 0 over the records, pass 1, and so on. Rank r of s takes
every s-th of its places, beginning at r, counted on over the ends of passes; this is how Caffe
deals records out to its solvers. A shuffle draws a new order for every pass from (seed, pass).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import I64
from swcaffe.data.draws import derive_seed, item_words, permutation
from swcaffe.errors import DataError, ParameterError

__all__ = ["Order", "rand_skip"]


class Order:
    """Item number -> record index. Pure and thread-safe; the orders of two passes are kept."""

    def __init__(
        self,
        n: int,
        *,
        rank: int = 0,
        size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        skip: int = 0,
        groups: Sequence[int] = (),
    ) -> None:
        """`skip` places are left out at the start of the stream (of all ranks together).

        `groups` are sizes of consecutive runs of records (HDF5 files). A shuffle then mixes the
        order of the groups and the records within each, but never records of two groups.
        Raises DataError if there are no records.
        """
        assert 0 <= rank < size, f"rank {rank} of {size}"
        assert not groups or sum(groups) == n, f"groups of {sum(groups)} records, source of {n}"
        if n == 0:
            raise DataError("no records", fix="give a source that is not empty")
        self.n, self.rank, self.size, self.skip = n, rank, size, skip
        self.shuffle, self.seed, self.groups = shuffle, seed, tuple(groups)
        self._passes: dict[int, I64] = {}
        self._lock = threading.Lock()

    def index(self, t: int) -> int:
        """Record of this rank's item t >= 0."""
        epoch, place = divmod(self.skip + t * self.size + self.rank, self.n)
        return int(self._pass(epoch)[place]) if self.shuffle else place

    def epoch(self, t: int) -> int:
        """Number of the pass item t belongs to."""
        return (self.skip + t * self.size + self.rank) // self.n

    def _pass(self, epoch: int) -> I64:
        with self._lock:
            if epoch not in self._passes:
                if len(self._passes) > 1:  # readers straddle at most one end of a pass
                    del self._passes[min(self._passes)]
                self._passes[epoch] = self._shuffled(epoch)
            return self._passes[epoch]

    def _shuffled(self, epoch: int) -> I64:
        if not self.groups:
            return permutation(self.n, self.seed, epoch)
        starts = np.concatenate(([0], np.cumsum(self.groups)))
        within = derive_seed(self.seed, "rows", epoch)
        return np.concatenate(
            [
                starts[g] + permutation(self.groups[g], within, int(g))
                for g in permutation(len(self.groups), self.seed, epoch)
            ]
        )


def rand_skip(limit: int, n: int, seed: int) -> int:
    """Places to skip at the start: a draw below `limit` (0: none), which must be below n."""
    if limit == 0:
        return 0
    if limit >= n:
        raise ParameterError(
            f"rand_skip {limit} is not below the number of records, {n}",
            fix="lower rand_skip",
        )
    return int(item_words(seed, 0, 1)[0, 0]) % limit
