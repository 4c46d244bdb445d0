"""Rows of HDF5 files: a list of files, each with one dataset for every top, first axes equal.

Rows are read in blocks of about 1 MiB that are kept while there is room, so a file of any size can
be read in any order: in order each block is loaded once, and a shuffle within a file that fits the
room loads each once as well. Data leave as float32. Files named by a list are opened only by path:
links to other files and data stored outside the file are refused.
"""

from __future__ import annotations

import bisect
import itertools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from swcaffe.arrays import F32
from swcaffe.data.source import SOURCES, DataSource, Record
from swcaffe.errors import DataError

__all__ = ["Hdf5Source", "read_file_list"]

BLOCK_BYTES = 1 << 20
ROOM_BYTES = 256 << 20


def read_file_list(source: str | Path) -> list[Path]:
    """The files a list names, separated by blanks or line ends.

    A relative path is looked for in the working directory, as Caffe does, then beside the list.
    Raises DataError if the list or a file is missing, or nothing is listed.
    """
    try:
        names = Path(source).read_text(encoding="utf-8-sig").split()
    except (OSError, UnicodeDecodeError) as cause:
        raise DataError(
            f"{source}: cannot read the list of files ({cause})",
            fix="check `source` of hdf5_data_param",
        ) from cause
    if not names:
        raise DataError(f"{source}: the list is empty", fix="list the paths of HDF5 files")
    return [_find(name, Path(source)) for name in names]


def _find(name: str, source: Path) -> Path:
    for path in (Path(name), source.parent / name):
        if path.is_file():
            return path
    raise DataError(
        f"{source}: {name}: no such file, neither in the working directory nor beside the list",
        fix="list absolute paths, or paths relative to one of the two",
    )


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    rows: int
    block_rows: int


@SOURCES.register("hdf5")
class Hdf5Source(DataSource):
    """Record i is row i, counted through the files; the first name is data, the others labels."""

    def __init__(
        self,
        source: str | Path,
        names: Sequence[str],
        *,
        block_bytes: int = BLOCK_BYTES,
        room_bytes: int = ROOM_BYTES,
    ) -> None:
        """`names` are the datasets to read, one for each top; blocks are kept in `room_bytes`.

        Raises DataError naming file and dataset if one is missing, is not made of numbers, has
        another number of rows than its neighbours or other rows than in the first file.
        """
        self.source, self.names = source, tuple(names)
        self._block_bytes, self._room_bytes = block_bytes, room_bytes
        self._row_shapes: tuple[tuple[int, ...], ...] = ()
        self._files = [self._look(path) for path in read_file_list(source)]
        self._ends = list(itertools.accumulate(file.rows for file in self._files))
        self._blocks: OrderedDict[tuple[int, int], tuple[F32, ...]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Rows of all files."""
        return self._ends[-1]

    def groups(self) -> tuple[int, ...]:
        """Rows of each file."""
        return tuple(file.rows for file in self._files)

    def read(self, index: int) -> Record:
        """Row `index` of every dataset, float32, as views of a block that nobody changes."""
        self.check_index(index)
        number = bisect.bisect_right(self._ends, index)
        file = self._files[number]
        row = index - (self._ends[number] - file.rows)
        block, place = divmod(row, file.block_rows)
        data, *labels = (array[place] for array in self._block(number, block))
        return Record(data, tuple(labels), f"{file.path} row {row}")

    def describe(self) -> str:
        """Kind, list, files and rows."""
        return f"HDF5 {self.source}, {len(self._files)} files, {len(self)} rows"

    def _block(self, number: int, block: int) -> tuple[F32, ...]:
        with self._lock:
            key = (number, block)
            if key in self._blocks:
                self._blocks.move_to_end(key)
                return self._blocks[key]
            arrays = self._load(self._files[number], block)
            self._blocks[key] = arrays
            self._bytes += _size(arrays)
            while self._bytes > self._room_bytes and len(self._blocks) > 1:
                self._bytes -= _size(self._blocks.popitem(last=False)[1])
            return arrays

    def _load(self, file: _File, block: int) -> tuple[F32, ...]:
        begin = block * file.block_rows
        end = min(file.rows, begin + file.block_rows)
        try:
            with h5py.File(file.path, "r", locking=False) as opened:
                rows = [opened[name][begin:end].astype(np.float32) for name in self.names]
        except (OSError, KeyError) as cause:
            raise DataError(
                f"{file.path}: rows {begin} to {end - 1}: {cause}",
                fix="write the file again, or take it off the list",
            ) from cause
        for array in rows:
            array.flags.writeable = False
        return tuple(rows)

    def _look(self, path: Path) -> _File:
        try:
            with h5py.File(path, "r", locking=False) as opened:
                datasets = [_dataset(opened, name, path) for name in self.names]
                shapes = [dataset.shape for dataset in datasets]
        except OSError as cause:
            raise DataError(
                f"{path}: not a readable HDF5 file ({cause})",
                fix="write the file again, or take it off the list",
            ) from cause
        rows = {shape[0] for shape in shapes}
        if len(rows) != 1 or rows == {0}:
            listed = ", ".join(f"{n} {s}" for n, s in zip(self.names, shapes, strict=True))
            raise DataError(
                f"{path}: datasets need the same number of rows, not 0: {listed}",
                fix="give every dataset one row for each item",
            )
        row_shapes = tuple(shape[1:] for shape in shapes)
        self._row_shapes = self._row_shapes or row_shapes
        if row_shapes != self._row_shapes:
            raise DataError(
                f"{path}: rows of shapes {row_shapes}, in the files before {self._row_shapes}",
                fix="give the files datasets of the same shape, or lists of their own",
            )
        row_bytes = sum(4 * int(np.prod(shape)) for shape in row_shapes)
        return _File(path, rows.pop(), max(1, self._block_bytes // max(1, row_bytes)))


def _dataset(opened: h5py.File, name: str, path: Path) -> h5py.Dataset:
    if name not in opened:
        raise DataError(
            f"{path}: no dataset {name!r}; it has {', '.join(sorted(opened))}",
            fix="name the tops of the layer like the datasets",
        )
    parts = name.strip("/").split("/")
    path_in_file = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    links = [opened.get(step, getlink=True) for step in path_in_file]
    dataset = opened[name] if all(isinstance(link, h5py.HardLink) for link in links) else None
    if not isinstance(dataset, h5py.Dataset) or dataset.external or dataset.is_virtual:
        raise DataError(
            f"{path}: {name!r} is not a dataset stored in this file",
            fix="copy the data into the file",
        )
    if dataset.ndim == 0 or dataset.dtype.kind not in "fiub":
        raise DataError(
            f"{path}: dataset {name!r} has shape {dataset.shape} and type {dataset.dtype}; "
            "it needs rows of integers or real numbers",
            fix="store numbers, one row for each item",
        )
    return dataset


def _size(arrays: tuple[F32, ...]) -> int:
    return sum(array.nbytes for array in arrays)
