"""Writing files that are, whatever happens meanwhile, either wholly the old or wholly the new."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from swcaffe.errors import DataError, SwcaffeError

__all__ = ["write_atomically"]


@contextmanager
def write_atomically(path: str | Path, error: type[SwcaffeError] = DataError) -> Iterator[Path]:
    """Give a path beside `path` to write to; on success it is flushed to disk and takes its place.

    If the block raises, the new file is removed and an old one at `path` stays as it was. A link is
    followed, not replaced. Raises `error`, naming `path`, for a directory, a device, a missing or
    forbidden folder, a full disk.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise error(
            f"cannot write {path}: it exists and is not a regular file", fix="use a new name"
        )
    part = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        yield part
        _flush(part)
        part.replace(target)
        _flush(target.parent)
    except OSError as cause:
        if cause.filename not in (None, str(part), str(target), str(target.parent)):
            raise  # about another file, read while this one was written
        reason = cause.strerror or str(cause)
        raise error(
            f"cannot write {path}: {reason}",
            fix="check that the folder exists, may be written to, and has room",
        ) from cause
    finally:
        with suppress(NotADirectoryError):  # the folder itself may be no folder
            part.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
