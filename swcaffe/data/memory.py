"""Records from arrays in memory."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import Array
from swcaffe.data.source import SOURCES, DataSource, Record
from swcaffe.errors import ShapeError

__all__ = ["MemorySource"]


@SOURCES.register("memory")
class MemorySource(DataSource):
    """Record i is row i of every array; the arrays are read, never copied or changed."""

    def __init__(self, data: Array, labels: Sequence[Array] | Array = ()) -> None:
        """`data` (n, …) and any number of label arrays (n, …); one array alone may stand bare.

        Raises ShapeError if their first axes differ.
        """
        self._data = data
        self._labels = tuple(labels) if isinstance(labels, list | tuple) else (labels,)
        for label in self._labels:
            if len(label) != len(data):
                raise ShapeError(
                    f"{len(data)} records of data, but {len(label)} labels",
                    fix="give one label for each record",
                )

    def __len__(self) -> int:
        """Rows."""
        return len(self._data)

    def read(self, index: int) -> Record:
        """Row `index`, as views."""
        self.check_index(index)
        labels = tuple(label[index] for label in self._labels)
        return Record(self._data[index], labels, f"row {index}")

    def describe(self) -> str:
        """Kind and shape."""
        return f"memory {self._data.shape}"
