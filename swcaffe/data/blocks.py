"""Runs of items of a stream, read and transformed by any thread: the pure half of a loader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from swcaffe.arrays import F32, I64, Shape, aligned_zeros
from swcaffe.data.draws import U64, item_words
from swcaffe.data.shard import Order
from swcaffe.data.source import DataSource, Record
from swcaffe.data.transform import Transformer
from swcaffe.errors import DataError

__all__ = ["Batch", "Block", "BlockMaker", "OnBad", "matching_tops"]

OnBad = Literal["error", "skip"]
"""What a record that cannot be read does: end the run, or be left out and counted."""


@dataclass(slots=True)
class Batch:
    """`tops[0]` (n, …) is data, `tops[1:]` are labels, float32; row j is record `keys[j]`.

    `items` (n,) are the rows' item numbers, ascending. A batch may be read until the next one is
    taken; then its memory is used again.
    """

    tops: tuple[F32, ...]
    items: I64
    keys: list[str]


@dataclass(slots=True)
class Block:
    """One run of items: the good ones in the first rows, the bad ones by item and message.

    `rows` has arrays of full size, also if some items were bad; it is None if all were.
    """

    rows: Batch | None
    bad: list[tuple[int, str]]

    @property
    def good(self) -> int:
        """Good items."""
        return len(self.rows.keys) if self.rows else 0


@dataclass(frozen=True, slots=True)
class BlockMaker:
    """Block k holds the items start + k * size … start + (k + 1) * size - 1, up to `end`."""

    source: DataSource
    order: Order
    size: int
    transformer: Transformer | None
    seed: int
    start: int
    on_bad: OnBad
    end: int | None = None

    def items(self, number: int) -> range:
        """The items of block `number`: fewer than `size`, or none, where the stream ends."""
        first = self.start + number * self.size
        last = first + self.size if self.end is None else min(first + self.size, self.end)
        return range(first, last)

    def __call__(self, number: int, spent: Block | None) -> Block:
        """Block `number`, in the memory of `spent` if that has the right shapes."""
        first = self.start + number * self.size
        words = item_words(self.seed, first, self.size)
        tops = spent.rows.tops if spent and spent.rows else ()
        items: list[int] = []
        keys: list[str] = []
        bad: list[tuple[int, str]] = []
        for item in self.items(number):
            try:
                record = self.source.read(self.order.index(item))
            except DataError as error:
                if self.on_bad == "error":
                    raise
                bad.append((item, str(error).partition("\n")[0]))
                continue
            shapes = self._row_shapes(record)
            tops = matching_tops(tops, shapes, self.size, record.key, keys)
            self._put(record, words[item - first], tops, len(keys))
            items.append(item)
            keys.append(record.key)
        rows = Batch(tops, np.array(items, dtype=np.int64), keys) if keys else None
        return Block(rows, bad)

    def shapes(self, position: int) -> tuple[Shape, ...]:
        """Shapes of a full batch's tops, from the first good record at or after `position`."""
        for item in range(position, position + self.order.n):
            try:
                record = self.source.read(self.order.index(item))
            except DataError:
                if self.on_bad == "error":
                    raise
                continue
            return tuple((self.size, *shape) for shape in self._row_shapes(record))
        raise self.all_bad()

    def all_bad(self) -> DataError:
        """The error for a stream without a good record."""
        return DataError(
            f"{self.source.describe()}: not one record can be read",
            fix="check `source`; the log names the first records and what is wrong with them",
        )

    def _row_shapes(self, record: Record) -> tuple[Shape, ...]:
        data = record.data.shape
        if self.transformer:
            data = self.transformer.output_shape(data)
        return (data, *(np.shape(label) for label in record.labels))

    def _put(self, record: Record, words: U64, tops: tuple[F32, ...], row: int) -> None:
        if self.transformer:
            self.transformer.apply(record.data, words, tops[0][row])
        else:
            tops[0][row] = record.data
        for top, label in zip(tops[1:], record.labels, strict=True):
            top[row] = label


def matching_tops(
    tops: tuple[F32, ...], shapes: tuple[Shape, ...], size: int, key: str, keys: list[str]
) -> tuple[F32, ...]:
    """`tops` if their rows have `shapes`, else new ones of `size` rows, if no row is in use yet.

    Raises DataError naming the record `key` and the first of `keys`, which are in the rows.
    """
    have = tuple(top.shape[1:] for top in tops)
    if have == shapes:
        return tops
    if keys:
        raise DataError(
            f"record {key!r} gives shapes {shapes}, but record {keys[0]!r} of the same batch "
            f"gave {have}",
            fix="resize or crop the pictures to one size, or set batch_size: 1",
        )
    return tuple(aligned_zeros((size, *shape)) for shape in shapes)
