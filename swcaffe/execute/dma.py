"""DMA copies under way: issued, and completed at the latest moment allowed, the Wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import F32, I64
from swcaffe.execute.ldm import Box, Ldms
from swcaffe.execute.lockstep.kernels import ARRIVING, LEAVING, WRITTEN, move
from swcaffe.ir.trace import CopyEvent
from swcaffe.machine.events import Counters
from swcaffe.machine.spec import Machine

__all__ = ["Dma", "Transfer"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy of every CPE: element starts (cpes,) and strides (4,) in memory, and an LDM box.

    event  takes the amounts as the copy completes
    """

    memory: F32
    starts: I64
    strides: I64
    ldm: Box
    get: bool
    event: CopyEvent


class Dma:
    """The copies in flight of a core group, by reply word."""

    def __init__(self, machine: Machine, ldms: Ldms, counters: Counters) -> None:
        """Counts into `counters` as bytes move."""
        self._ldms, self._counters = ldms, counters
        self._line = machine.dma.transaction_bytes // 4
        self._pending: dict[tuple[str, int], list[Transfer]] = {}

    def issue(self, word: tuple[str, int], transfer: Transfer) -> None:
        """Start a copy: nothing has moved yet."""
        if transfer.get:
            self._ldms.write(transfer.ldm, "gets into")
            self._ldms.mark(transfer.ldm, ARRIVING)
        else:
            self._ldms.require(transfer.ldm, "puts from")
            self._ldms.mark(transfer.ldm, LEAVING)
        self._pending.setdefault(word, []).append(transfer)

    def wait(self, word: tuple[str, int]) -> int:
        """Complete the copies with this reply word, in order; how many there were."""
        transfers = self._pending.pop(word, [])
        for transfer in transfers:
            self._complete(transfer)
        return len(transfers)

    def pending(self) -> list[tuple[str, int]]:
        """Reply words that nobody has awaited."""
        return sorted(self._pending)

    def _complete(self, t: Transfer) -> None:
        counts = np.zeros((self._ldms.mesh.cpes, 3), np.int64)
        move(
            t.memory,
            t.starts,
            t.strides,
            self._ldms.floats,
            t.ldm.at,
            t.ldm.strides,
            t.ldm.extents,
            t.get,
            self._line,
            counts,
        )
        self._ldms.mark(t.ldm, WRITTEN)
        moved, transactions, descriptors = (int(count) for count in counts.sum(axis=0))
        _, most_transactions, most_descriptors = (int(count) for count in counts.max(axis=0))
        t.event.elements, t.event.transactions = moved, transactions
        t.event.descriptors = descriptors
        t.event.most_transactions = most_transactions
        t.event.most_descriptors = most_descriptors
        if t.get:
            self._counters.dma_get_bytes += 4 * moved
        else:
            self._counters.dma_put_bytes += 4 * moved
        self._counters.dma_transactions += transactions
        self._counters.dma_descriptors += descriptors
