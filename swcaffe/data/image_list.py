"""Text files that list pictures: one `path label` a line, the last blank separates.

Paths may contain blanks. Blanks or a carriage return after the label, runs of blanks and tabs
before it, a byte-order mark and empty lines do not matter. The label is an integer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from swcaffe.data.image import Colour, read_picture, resize
from swcaffe.data.source import SOURCES, DataSource, Record
from swcaffe.errors import DataError, ParameterError

__all__ = ["Entry", "ImageListSource", "read_list"]

LISTED, SHOWN = 10, 80
"""Wrong lines that an error shows at most, and characters of each."""

_LINE = re.compile(r"(?P<path>.*\S)[ \t]+(?P<label>\S+)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: the path as written, its label, the line's number."""

    path: str
    label: int
    line: int


def read_list(source: str | Path) -> list[Entry]:
    """The entries of a list file.

    Raises DataError, naming the file, if it cannot be read or lists nothing; all lines without an
    integer label are named together.
    """
    try:
        text = Path(source).read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as cause:
        raise DataError(
            f"{source}: cannot read the list ({cause.strerror or cause})", fix="check `source`"
        ) from cause
    entries, wrong = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match and re.fullmatch(r"[+-]?\d{1,10}", match["label"]) and _is_int32(match["label"]):
            entries.append(Entry(match["path"], int(match["label"]), number))
        else:
            shown = repr(line if len(line) <= SHOWN else line[:SHOWN] + "…")
            wrong.append(f"{source}:{number}: no `path label` with an integer label: {shown}")
    if wrong:
        more = [f"{source}: and {len(wrong) - LISTED} lines more"] if len(wrong) > LISTED else []
        raise DataError(
            "\n".join(wrong[:LISTED] + more),
            fix="write a path, a blank and an integer of 32 bits on each line",
        )
    if not entries:
        raise DataError(f"{source}: the list is empty", fix="list pictures as `path label`")
    return entries


def _is_int32(text: str) -> bool:
    """Whether a label fits the integer that databases keep it in."""
    return -(2**31) <= int(text) < 2**31


@SOURCES.register("image_list")
class ImageListSource(DataSource):
    """The pictures of a list, decoded and resized as they are read."""

    def __init__(
        self,
        source: str | Path,
        *,
        root_folder: str = "",
        new_height: int = 0,
        new_width: int = 0,
        is_color: bool = True,
    ) -> None:
        """Caffe's image_data_param: `root_folder` is put before the paths as it is.

        Raises ParameterError if only one of the sizes is given, DataError as `read_list`.
        """
        if (new_height > 0) != (new_width > 0):
            raise ParameterError(
                f"new_height {new_height} and new_width {new_width}",
                fix="give both, or neither",
            )
        self.source, self.root_folder = source, root_folder
        self.entries = read_list(source)
        self._size = (new_height, new_width)
        self._colour: Colour = "bgr" if is_color else "grey"

    def __len__(self) -> int:
        """Number of entries."""
        return len(self.entries)

    def read(self, index: int) -> Record:
        """Picture `index`, (3 or 1, h, w), and its label."""
        self.check_index(index)
        entry = self.entries[index]
        path = Path(self.root_folder + entry.path)
        where = f"{self.source}:{entry.line}"
        if not path.is_file():
            raise DataError(f"{where}: {path}: no such file", fix=self._hint(entry))
        try:
            pixels = read_picture(path, self._colour)
        except DataError as error:
            error.where = error.where or where
            raise
        if self._size[0]:
            pixels = resize(pixels, *self._size)
        return Record(pixels, (float(entry.label),), entry.path)

    def describe(self) -> str:
        """Kind, list, number of pictures."""
        return f"image list {self.source}, {len(self.entries)} pictures"

    def _hint(self, entry: Entry) -> str:
        root = self.root_folder
        if root and Path(root, entry.path).is_file():
            return f'root_folder is put before the path as it is: write "{root}/"'
        return "check the path, root_folder and the working directory"
