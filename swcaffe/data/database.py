"""Making a database in Caffe's conventions, so that it appears whole or not at all.

It is written under a temporary name beside its place and renamed when complete. Entries go in by
transactions of 1000, as Caffe's tools commit.
"""

from __future__ import annotations

import importlib
import logging
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

from swcaffe.data.source import DataSource, open_source
from swcaffe.errors import DataError, UsageError, unknown_name

__all__ = ["BACKENDS", "Backend", "Database", "create_database", "open_database"]

log = logging.getLogger(__name__)

Backend = Literal["lmdb", "leveldb"]

BACKENDS = {"lmdb": "LmdbWriter", "leveldb": "LevelDbWriter"}
"""Caffe's names of backends and the class in the module of that name which writes one."""

COMMIT_EVERY = 1000


class _Writer(Protocol):
    def __init__(self, path: Path) -> None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def commit(self) -> None: ...

    def close(self) -> None: ...


class Database:
    """A database being made."""

    def __init__(self, writer: _Writer, *, commit_every: int = COMMIT_EVERY) -> None:
        """Entries are committed by themselves every `commit_every` puts."""
        self._writer, self._commit_every = writer, commit_every
        self.count = 0
        """Entries put so far."""

    def put(self, key: str, value: bytes) -> None:
        """Add an entry."""
        self._writer.put(key.encode("utf-8", "surrogateescape"), value)
        self.count += 1
        if self.count % self._commit_every == 0:
            self._writer.commit()
            log.info("Processed %d files.", self.count)


@contextmanager
def create_database(path: str | Path, backend: Backend = "lmdb") -> Iterator[Database]:
    """A new database at `path`, there once the block has ended without an error.

    Raises UsageError for an unknown backend, DataError if `path` exists or cannot be written.
    """
    target = Path(path)
    make = _writer_class(backend)
    if target.exists():
        raise DataError(f"{target} exists already", fix="remove it, or choose another name")
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        writer = make(part)
        try:
            database = Database(writer)
            yield database
            writer.commit()
        finally:
            writer.close()
        part.rename(target)
    except OSError as cause:
        if cause.filename is not None and Path(cause.filename) not in (target, part, target.parent):
            raise
        raise DataError(
            f"{target}: cannot be written ({cause.strerror or cause})",
            fix="check that the folder may be written to and has room",
        ) from cause
    finally:
        shutil.rmtree(part, ignore_errors=True)


def open_database(path: str | Path, backend: Backend = "lmdb", **settings: object) -> DataSource:
    """The database at `path` as a source. Raises UsageError for an unknown backend."""
    _writer_class(backend)
    return open_source(backend, path=path, **settings)


def _writer_class(backend: str) -> type[_Writer]:
    if backend not in BACKENDS:
        raise UsageError(
            unknown_name("database backend", backend, BACKENDS), fix="give one of these"
        )
    module = importlib.import_module(f"swcaffe.data.{backend}")
    writer: type[_Writer] = getattr(module, BACKENDS[backend])
    return writer
