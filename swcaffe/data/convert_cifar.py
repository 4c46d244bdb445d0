"""CIFAR-10's binary batches to databases, as Caffe's convert_cifar_data makes them.

A record is one byte of label and 3 x 32 x 32 bytes, planar; the channels stay in the file's order,
which is R, G, B.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from swcaffe.arrays import U8
from swcaffe.data.database import Backend, create_database
from swcaffe.data.datum import raw_value
from swcaffe.errors import DataError

__all__ = ["convert_cifar_data"]

log = logging.getLogger(__name__)

SHAPE = (3, 32, 32)
RECORD_BYTES = 1 + 3 * 32 * 32
RECORDS = 10000

TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = ("test_batch.bin",)


def convert_cifar_data(
    input_folder: str | Path, output_folder: str | Path, db_type: Backend = "lmdb"
) -> dict[str, int]:
    """Write OUT/cifar10_train_<type> and OUT/cifar10_test_<type>, keys 00000, 00001, …

    Returns the records of each by name; warns of a batch that has not 10000, as CIFAR-10's have.
    Raises DataError for a batch that is missing or ends within a record.
    """
    folder, out = Path(input_folder), Path(output_folder)
    sets = {"train": TRAIN, "test": TEST}
    counts = {}
    for name, files in sets.items():
        path = out / f"cifar10_{name}_{db_type}"
        counts[path.name] = _write(path, [folder / file for file in files], db_type)
    return counts


def _write(path: Path, files: Sequence[Path], db_type: Backend) -> int:
    with create_database(path, db_type) as database:
        for file in files:
            for row in _records(file):
                value = raw_value(row[1:].reshape(SHAPE), int(row[0]))
                database.put(f"{database.count:05d}", value)
    return database.count


def _records(file: Path) -> U8:
    try:
        data = file.read_bytes()
    except OSError as cause:
        raise DataError(
            f"{file}: cannot read ({cause.strerror or cause})",
            fix="unpack CIFAR-10's binary version there",
        ) from cause
    records, rest = divmod(len(data), RECORD_BYTES)
    if rest or not records:
        raise DataError(
            f"{file}: {len(data)} bytes are not whole records of {RECORD_BYTES}",
            fix="use the binary version of CIFAR-10, not the Python or Matlab one",
        )
    if records != RECORDS:
        log.warning("%s: %d records, CIFAR-10's batches have %d", file, records, RECORDS)
    return np.frombuffer(data, dtype=np.uint8).reshape(records, RECORD_BYTES)
