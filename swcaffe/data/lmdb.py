"""LMDB databases in Caffe's form: a folder, one unnamed table, keys in byte order, Datum values.

LMDB finds records by key, not by number. While records are read the key of every 32nd one is kept;
record i is then found by seeking to the mark at or before it and stepping on. Opening costs
nothing, reading in order never scans ahead, and the first jump costs one pass over the keys it
skips.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import lmdb

from swcaffe.data.datum import record_of
from swcaffe.data.image import Colour
from swcaffe.data.source import SOURCES, DataSource, Record
from swcaffe.errors import DataError

__all__ = ["LmdbSource", "LmdbWriter"]

STRIDE = 32
"""Records from one remembered key to the next; a read steps over half as many on average."""

FIRST_MAP_BYTES = 1 << 20
"""LMDB's own default; doubled whenever it is full, as Caffe does."""


@SOURCES.register("lmdb")
class LmdbSource(DataSource):
    """The records of a database in key order. Reads only: no lock file, read-only folders are fine.

    Safe to read from many threads and after a fork, for without locks LMDB's read handles are only
    a shared map of the file. Another process must not write to the database meanwhile.
    """

    def __init__(self, path: str | Path, colour: Colour = "stored") -> None:
        """Raises DataError if there is no database at `path`, or it is damaged or cut short."""
        self.path = Path(path)
        self._colour: Colour = colour
        self._environment = _open_shared(self.path)
        self._release = weakref.finalize(self, _close_shared, self._environment)
        self._records = int(self._environment.stat()["entries"])
        self._marks: list[bytes] = []
        self._growing = threading.Lock()
        self._local = threading.local()

    def __len__(self) -> int:
        """Number of records."""
        return self._records

    def read(self, index: int) -> Record:
        """Record number `index` in key order."""
        self.check_index(index)
        key, value = self.entry(index)
        return record_of(value, key, self._colour, str(self.path))

    def entry(self, index: int) -> tuple[bytes, bytes]:
        """Key and undecoded value of record `index`."""
        try:
            cursor = self._cursor()
            mark, steps = divmod(index, STRIDE)
            if mark >= len(self._marks):
                self._extend(mark)
            found = cursor.set_key(self._marks[mark])
            for _ in range(steps):
                found = found and cursor.next()
            if not found:
                raise DataError(
                    f"{self.path}: record {index} is gone; was the database changed?",
                    fix="let nobody write to a database that is being read",
                )
            key, value = cursor.item()
            return bytes(key), bytes(value)
        except lmdb.Error as cause:
            raise DataError(
                f"{self.path}: record {index} cannot be read ({cause})",
                fix="make the database again",
            ) from cause

    def describe(self) -> str:
        """Kind, path, number of records."""
        return f"LMDB {self.path}, {self._records} records"

    def close(self) -> None:
        """Unmap the file, unless another source reads it too."""
        self._local = threading.local()
        self._release()

    def _cursor(self) -> lmdb.Cursor:
        """This thread's cursor, in a transaction that lives as long as the thread."""
        cursor = getattr(self._local, "cursor", None)
        if cursor is None:
            cursor = self._local.cursor = self._environment.begin().cursor()
        return cursor

    def _extend(self, mark: int) -> None:
        """Remember keys up to mark number `mark`."""
        with self._growing, self._environment.begin() as transaction:
            cursor = transaction.cursor()
            found = cursor.set_key(self._marks[-1]) if self._marks else cursor.first()
            steps = STRIDE if self._marks else 0
            while found and len(self._marks) <= mark:
                for _ in range(steps):
                    found = found and cursor.next()
                if found:
                    self._marks.append(cursor.key())
                steps = STRIDE
            if not found:
                raise DataError(
                    f"{self.path}: fewer records than the database states",
                    fix="make the database again",
                )


_shared: dict[tuple[int, int], tuple[lmdb.Environment, int]] = {}
"""Open environments and their users by device and inode: LMDB opens a file once in a process."""

_sharing = threading.Lock()


def _open_shared(path: Path) -> lmdb.Environment:
    file = path / "data.mdb" if path.is_dir() else path
    try:
        stat = file.stat()
    except OSError as cause:
        raise DataError(
            f"{path}: no LMDB database here ({cause.strerror})",
            fix="check `source`; a database is a folder with a file data.mdb in it",
        ) from cause
    with _sharing:
        environment, users = _shared.get((stat.st_dev, stat.st_ino), (None, 0))
        if environment is None:
            environment = _open(path, stat.st_size)
        _shared[stat.st_dev, stat.st_ino] = (environment, users + 1)
    return environment


def _open(path: Path, size: int) -> lmdb.Environment:
    try:
        environment = lmdb.open(
            str(path), subdir=path.is_dir(), readonly=True, lock=False, create=False
        )
        needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    except lmdb.Error as cause:
        raise DataError(
            f"{path}: not a readable LMDB database ({cause})",
            fix="check `source`, or make the database again",
        ) from cause
    if size < needed:  # reading the missing pages would kill the process
        environment.close()
        raise DataError(
            f"{path}: cut short, {size} of {needed} bytes", fix="copy or convert it again"
        )
    return environment


def _close_shared(environment: lmdb.Environment) -> None:
    with _sharing:
        for file, (opened, users) in list(_shared.items()):
            if opened is environment and users == 1:
                del _shared[file]
                environment.close()
            elif opened is environment:
                _shared[file] = (environment, users - 1)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except lmdb.Error as cause:
        raise DataError(
            f"{what}: {cause}", fix="keys have 1 to 511 bytes, and the disk must have room"
        ) from cause


class LmdbWriter:
    """Puts entries into a new database; `commit` makes what was put so far durable."""

    def __init__(self, path: Path) -> None:
        """Make the folder `path` (mode 0744, as Caffe does) and an empty database in it."""
        path.mkdir(mode=0o744)
        with _explained(f"cannot make {path}"):
            self._environment = lmdb.open(
                str(path),
                map_size=FIRST_MAP_BYTES,
                mode=0o664,
                metasync=False,
                sync=False,
                lock=False,  # nobody else knows the folder, and a full disk kills who maps a lock
            )
        self._pending: list[tuple[bytes, bytes]] = []

    def put(self, key: bytes, value: bytes) -> None:
        """Add an entry; a second one under a key replaces the first."""
        self._pending.append((key, value))

    def commit(self) -> None:
        """Write what was put since the last commit, doubling the map until it fits.

        Raises DataError for a full disk, or a key that is empty or longer than 511 bytes.
        """
        first, last = (self._pending[i][0] if self._pending else b"" for i in (0, -1))
        with _explained(f"cannot store the entries {first!r} to {last!r}"):
            while not self._put_pending():
                self._environment.set_mapsize(2 * self._environment.info()["map_size"])
        self._pending.clear()

    def _put_pending(self) -> bool:
        """Store all pending entries in one transaction, or none if the map is full."""
        try:
            with self._environment.begin(write=True) as transaction:
                for key, value in self._pending:
                    transaction.put(key, value)
        except lmdb.MapFullError:
            return False
        return True

    def close(self) -> None:
        """Flush to disk and close; what was not committed is dropped. Raises DataError."""
        try:
            with _explained("cannot flush the database"):
                self._environment.sync(True)
        finally:
            self._environment.close()

    def __enter__(self) -> LmdbWriter:
        """The writer itself; `with` closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
