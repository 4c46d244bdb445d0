"""A source, an order and a transformer as a stream of batches, read ahead and resumable.

Reader threads make *blocks*: the items [p, p + batch) of the stream, without those whose records
are bad. `next` turns blocks into batches that are always full. Without bad records a block is a
batch and nothing is copied; after one, every batch is filled up from the next block. Blocks depend
on p alone, so batches do not depend on the number of threads, and the number of items consumed is
all that must be saved to go on exactly.
"""

from __future__ import annotations

import logging

import numpy as np

from swcaffe.arrays import F32, I64, Shape
from swcaffe.data.blocks import Batch, Block, BlockMaker, OnBad, matching_tops
from swcaffe.data.prefetch import Prefetcher
from swcaffe.data.shard import Order
from swcaffe.data.source import DataSource
from swcaffe.data.transform import Transformer

__all__ = ["Batch", "Loader", "OnBad"]

log = logging.getLogger(__name__)

SORTED_ITEMS = 16
"""Fewest items of one class at the start of a stream that look like records sorted by class."""

I64_NONE: I64 = np.empty(0, np.int64)

BAD_LOGGED = 10
"""Bad records that are named in the log one by one; later ones are only counted."""


class _ClassWatch:
    """Looks at the labels at the start of a stream until two differ, or `enough` have not."""

    def __init__(self, enough: int) -> None:
        self.enough, self.count, self.label, self._decided = enough, 0, 0.0, False

    def mixed(self, batch: Batch) -> bool:
        """False once: when `enough` labels were all the same."""
        if self._decided:
            return True
        if len(batch.tops) != 2 or batch.tops[1].ndim != 1:  # not one class label a record
            self._decided = True
            return True
        labels = batch.tops[1]
        self.label = float(labels[0]) if self.count == 0 else self.label
        self.count += len(labels)
        one_class = bool(np.all(labels == self.label))
        self._decided = not one_class or self.count >= self.enough
        return not (one_class and self._decided)


class Loader:
    """Full batches of `batch_size` transformed records, in the order's sequence."""

    def __init__(
        self,
        source: DataSource,
        order: Order,
        batch_size: int,
        *,
        transformer: Transformer | None = None,
        seed: int = 0,
        start: int = 0,
        end: int | None = None,
        depth: int = 4,
        threads: int = 1,
        on_bad: OnBad = "error",
        expect_mixed: bool = False,
    ) -> None:
        """Without a `transformer` data is only converted to float32.

        seed    of the mirror coins and crop offsets
        start   items consumed by an earlier run: its `position`
        end     the item at which the stream ends: the last batch is smaller, later ones are empty
        depth   batches made ahead at most
        expect_mixed  warn if the stream begins with one class only (training)
        """
        assert batch_size > 0, f"batch of {batch_size}"
        self.batch_size = batch_size
        self.position = start
        """Items of the stream consumed so far, bad ones included."""
        self.skipped = 0
        """Bad records among the items consumed since the start."""
        self._end = end
        self._blocks = BlockMaker(source, order, batch_size, transformer, seed, start, on_bad, end)
        self._readers: Prefetcher[Block] = Prefetcher(self._blocks, depth=depth, threads=threads)
        self._last: Block | None = None  # lent to the consumer until the next call
        self._open: Block | None = None  # partly used
        self._used = 0  # rows of it that are
        self._bad: list[tuple[int, str]] = []  # met, but not consumed yet
        self._watch = _ClassWatch(max(batch_size, SORTED_ITEMS)) if expect_mixed else None

    @property
    def wait_s(self) -> float:
        """Seconds spent waiting for data."""
        return self._readers.wait_s

    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of a batch's tops, from the first good record at the present position."""
        return self._blocks.shapes(self.position)

    def next(self) -> Batch:
        """The next batch; valid until the following call.

        Raises DataError for a bad record when `on_bad` is "error", for records whose shapes differ
        within a batch, and if all records are bad.
        """
        if self._last is not None:
            self._readers.recycle(self._last)
            self._last = None
        if self._open is None:
            block = self._next_block()
            if block and block.good == self.batch_size:
                self._last = block
                return self._account(block.rows)
            self._open, self._used = block, 0
        return self._account(self._fill())

    def close(self) -> None:
        """Stop the readers; the source stays open, its owner closes it."""
        self._readers.close()

    def summary(self) -> str:
        """One line: items, bad records, time waited for data."""
        bad = f", {self.skipped} bad records skipped" if self.skipped else ""
        return f"{self.position - self._blocks.start} items{bad}, data wait {self.wait_s:.3f} s"

    def _next_block(self) -> Block | None:
        """The next block with a good record in it; None at the end of the stream."""
        seen = 0
        while seen <= self._blocks.order.n + self.batch_size:
            if not self._blocks.items(self._readers.position):
                return None
            block = self._readers.next()
            self._bad += block.bad
            if block.good:
                return block
            seen += self.batch_size
        raise self._blocks.all_bad()

    def _fill(self) -> Batch:
        """A batch of its own memory from the open block and as many more as are needed and left."""
        tops: tuple[F32, ...] = ()
        items: list[I64] = []
        keys: list[str] = []
        while len(keys) < self.batch_size:
            block = self._open or self._next_block()
            if block is None:
                return self._last_batch(tops, items, keys)
            assert block.rows is not None, "an open block has rows"
            begin = self._used if self._open else 0
            end = min(block.good, begin + self.batch_size - len(keys))
            shapes = tuple(top.shape[1:] for top in block.rows.tops)
            tops = matching_tops(tops, shapes, self.batch_size, block.rows.keys[begin], keys)
            for top, source in zip(tops, block.rows.tops, strict=True):
                top[len(keys) : len(keys) + end - begin] = source[begin:end]
            items.append(block.rows.items[begin:end])
            keys += block.rows.keys[begin:end]
            self._open, self._used = (block, end) if end < block.good else (None, 0)
            if self._open is None:
                self._readers.recycle(block)
        return Batch(tops, np.concatenate(items), keys)

    def _last_batch(self, tops: tuple[F32, ...], items: list[I64], keys: list[str]) -> Batch:
        """The rows that are left; none has the shapes of a batch all the same."""
        if not keys:
            shapes = self._blocks.shapes(self._blocks.start)
            return Batch(tuple(np.zeros((0, *s[1:]), np.float32) for s in shapes), I64_NONE, [])
        return Batch(tuple(top[: len(keys)] for top in tops), np.concatenate(items), keys)

    def _account(self, batch: Batch | None) -> Batch:
        assert batch is not None, "batches are taken from blocks with rows"
        if len(batch.keys) == self.batch_size:
            self.position = int(batch.items[-1]) + 1
        else:
            assert self._end is not None, "only the last batch may be smaller"
            self.position = self._end
        while self._bad and self._bad[0][0] < self.position:
            self._book(self._bad.pop(0)[1])
        if self._watch and not self._watch.mixed(batch):
            log.warning(
                "%s: the first %d labels are one class (%g); are the records sorted by class? "
                "Shuffle them when converting, or set shuffle",
                self._blocks.source.describe(),
                self._watch.count,
                self._watch.label,
            )
        return batch

    def _book(self, message: str) -> None:
        self.skipped += 1
        if self.skipped <= BAD_LOGGED:
            log.warning("skipped: %s", message)
        elif self.skipped == BAD_LOGGED + 1:
            log.warning("further bad records are only counted")
