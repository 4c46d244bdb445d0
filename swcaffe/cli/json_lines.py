"""Training events as JSON lines: one object for each display, test and snapshot."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from swcaffe.errors import DataError

__all__ = ["JsonLines"]


def _finite(value: object) -> object:
    """The value with null for NaN and infinity, which JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class JsonLines:
    """A solver listener that appends to a file; every line is complete as soon as it is written."""

    def __init__(self, path: Path) -> None:
        """Open for appending, so that a resumed run continues its file. Raises DataError."""
        self._path = path
        with self._explained():
            self._file: TextIO = path.open("a", encoding="utf-8", buffering=1)

    def __call__(self, event: Mapping[str, object]) -> None:
        """Write an event; single iterations are left out. Raises DataError for a full disk."""
        if event["event"] != "iteration":
            with self._explained():
                self._file.write(json.dumps(_finite(event), allow_nan=False) + "\n")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DataError(
                f"cannot write {self._path}: {error.strerror}",
                fix="check that its folder exists, may be written to, and has room",
            ) from error

    def __enter__(self) -> JsonLines:
        """The listener itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file; what a full disk refused before has been told then."""
        with suppress(OSError):
            self._file.close()
