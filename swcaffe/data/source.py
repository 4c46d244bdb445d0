"""What a data source is: a length, and a pure `read` from an index to a record.

Purity is the whole contract. Because `read(i)` gives the same record whenever and from whichever
thread it is called, order, sharding, shuffling, threads and resuming all live outside the sources.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import TracebackType

from swcaffe.arrays import Array
from swcaffe.errors import DataError, unknown_name
from swcaffe.registry import Registry

__all__ = ["SOURCES", "DataSource", "Record", "open_source"]


@dataclass(frozen=True, slots=True)
class Record:
    """One example before transformation.

    data    uint8 or float32; pictures are (c, h, w) with colour channels in the order B, G, R
    labels  one array or number for each further top; a classification record has one number
    key     how messages name the record: a database key, a path, or file and row
    """

    data: Array
    labels: tuple[Array | float, ...]
    key: str


class DataSource(ABC):
    """Records that can be read by index, in any order, from any thread."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of records."""

    @abstractmethod
    def read(self, index: int) -> Record:
        """Record `index`, 0 <= index < len(self); pure and thread-safe.

        Raises DataError naming the record's key if it cannot be used.
        """

    @abstractmethod
    def describe(self) -> str:
        """One line for the log: kind, place, number of records."""

    def close(self) -> None:  # noqa: B027  most sources hold nothing open
        """Let go of files. `read` must not be called afterwards."""

    def groups(self) -> tuple[int, ...]:
        """Sizes of runs of records that a shuffle should keep together (files); () for none."""
        return ()

    def __enter__(self) -> DataSource:
        """The source itself; `with` closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def check_index(self, index: int) -> None:
        """Assert that `index` lies in range: orders, not users, make indices."""
        assert 0 <= index < len(self), f"{self.describe()}: no record {index}"


SOURCES: Registry[type[DataSource]] = Registry("data source", DataError)
"""Source classes by name. A built-in name is also the module of this package that registers it."""

BUILT_IN = ("hdf5", "image_list", "leveldb", "lmdb", "memory", "synthetic")


def open_source(name: str, **settings: object) -> DataSource:
    """A source by registered name, its module loaded on first use; `settings` go to the class.

    Raises DataError for an unknown name, or whatever the class raises on opening.
    """
    if name in BUILT_IN:
        importlib.import_module(f"swcaffe.data.{name}")
    elif name not in SOURCES:
        raise DataError(
            unknown_name(SOURCES.kind, name, sorted({*BUILT_IN, *SOURCES})), fix="give one of these"
        )
    return SOURCES.get(name)(**settings)
