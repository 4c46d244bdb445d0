"""LevelDB databases in Caffe's form, through plyvel (`pip install swcaffe[leveldb]`).

LevelDB neither counts nor numbers its records, so the keys are listed once at opening. A database
can be opened by one process at a time and lies in a folder that may be written to.
"""

from __future__ import annotations

from pathlib import Path

from swcaffe.data.datum import record_of
from swcaffe.data.image import Colour
from swcaffe.data.source import SOURCES, DataSource, Record
from swcaffe.errors import DataError

try:
    import plyvel
except ImportError:
    plyvel = None

__all__ = ["LevelDbSource", "LevelDbWriter"]


def _require() -> None:
    if plyvel is None:
        raise DataError(
            "reading or writing LevelDB needs the package plyvel",
            fix="pip install plyvel, or use LMDB: backend: LMDB (LEVELDB is the schema's default)",
        )


@SOURCES.register("leveldb")
class LevelDbSource(DataSource):
    """The records of a database in key order; thread-safe, but not across a fork."""

    def __init__(self, path: str | Path, colour: Colour = "stored") -> None:
        """Raises DataError if plyvel is missing, or there is no readable database at `path`."""
        _require()
        self.path = Path(path)
        self._colour: Colour = colour
        if not self.path.is_dir():
            raise DataError(f"{self.path}: no LevelDB database here", fix="check `source`")
        try:
            self._database = plyvel.DB(str(self.path), create_if_missing=False)
            self._keys = list(self._database.iterator(include_value=False))
        except plyvel.Error as cause:
            raise DataError(
                f"{self.path}: not a readable LevelDB database ({cause})",
                fix="check `source`, or make the database again",
            ) from cause

    def __len__(self) -> int:
        """Number of records."""
        return len(self._keys)

    def read(self, index: int) -> Record:
        """Record number `index` in key order."""
        self.check_index(index)
        key, value = self.entry(index)
        return record_of(value, key, self._colour, str(self.path))

    def entry(self, index: int) -> tuple[bytes, bytes]:
        """Key and undecoded value of record `index`."""
        key = self._keys[index]
        try:
            return key, self._database.get(key)
        except plyvel.Error as cause:
            raise DataError(
                f"{self.path}: record {key!r} cannot be read ({cause})",
                fix="make the database again",
            ) from cause

    def describe(self) -> str:
        """Kind, path, number of records."""
        return f"LevelDB {self.path}, {len(self._keys)} records"

    def close(self) -> None:
        """Give the database free for other processes."""
        self._database.close()


class LevelDbWriter:
    """Puts entries into a new database; `commit` writes what was put so far at once."""

    def __init__(self, path: Path) -> None:
        """Make a database at `path`, with Caffe's block size of 64 KiB."""
        _require()
        self._database = plyvel.DB(
            str(path), create_if_missing=True, error_if_exists=True, block_size=1 << 16
        )
        self._pending = self._database.write_batch()

    def put(self, key: bytes, value: bytes) -> None:
        """Add an entry; a second one under a key replaces the first."""
        self._pending.put(key, value)

    def commit(self) -> None:
        """Write what was put since the last commit."""
        self._pending.write()
        self._pending = self._database.write_batch()

    def close(self) -> None:
        """Close; what was not committed is dropped."""
        self._database.close()
