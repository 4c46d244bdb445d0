"""Where in the user's file each field of a parsed message was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from swcaffe.proto.messages import Message

__all__ = ["FieldPath", "Parsed", "SourceMap"]

FieldPath: TypeAlias = tuple[str | int, ...]
"""Field names from the message down, each list followed by an index: `("layer", 3, "top", 0)`."""


@dataclass(frozen=True)
class SourceMap:
    """A file's name and the line (from 1) on which each field begins.

    A map without lines stands for a definition that has none: a binary file, or a message made in
    Python.
    """

    file: str
    lines: Mapping[FieldPath, int] = field(default_factory=dict)

    def where(self, path: FieldPath = ()) -> str:
        """`file:line` of a field, or of the nearest message around it with a line; else `file`."""
        for length in range(len(path), 0, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return f"{self.file}:{line}"
        return self.file

    def under(self, prefix: FieldPath) -> SourceMap:
        """The map of the message at `prefix`, such as a net written inside a solver."""
        depth = len(prefix)
        kept = {path[depth:]: n for path, n in self.lines.items() if path[:depth] == prefix}
        return SourceMap(self.file, kept)

    def moved(self, moves: Mapping[FieldPath, FieldPath | None]) -> SourceMap:
        """The map after an upgrade that took every field under `old` to under `moves[old]`.

        The longest `old` that a path begins with decides; None drops the path, and a path under no
        `old` stays as it is.
        """
        lines: dict[FieldPath, int] = {}
        for path, line in self.lines.items():
            length = len(path)
            while length and path[:length] not in moves:
                length -= 1
            new = moves[path[:length]] if length else ()
            if new is not None:
                lines.setdefault(new + path[length:], line)
        return SourceMap(self.file, lines)


@dataclass(frozen=True)
class Parsed:
    """A message, where its fields were written, and what the reader had to say about it."""

    message: Message
    source_map: SourceMap
    warnings: tuple[str, ...] = ()
