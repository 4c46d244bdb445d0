"""MNIST's idx files to a database, as Caffe's convert_mnist_data makes it.

idx: big-endian; two zero bytes, 8 for unsigned bytes, the number of axes, their sizes as 32 bits,
then the values. Files compressed by gzip are read too.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from swcaffe.arrays import U8
from swcaffe.data.database import Backend, create_database
from swcaffe.data.datum import raw_value
from swcaffe.errors import DataError
from swcaffe.files import write_atomically

__all__ = ["convert_mnist_data", "parse_idx", "read_idx", "write_idx"]


def convert_mnist_data(
    image_filename: str | Path,
    label_filename: str | Path,
    db_path: str | Path,
    *,
    backend: Backend = "lmdb",
) -> int:
    """Write images and labels as Datums under the keys 00000000, 00000001, …; returns how many.

    Raises DataError for files of the wrong kind or counts that differ.
    """
    images, labels = read_idx(image_filename, axes=3), read_idx(label_filename, axes=1)
    if len(images) != len(labels):
        raise DataError(
            f"{image_filename} has {len(images)} images, {label_filename} {len(labels)} labels",
            fix="give two files of one set",
        )
    with create_database(db_path, backend) as database:
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            database.put(f"{i:08d}", raw_value(image[np.newaxis], int(label)))
    return len(images)


def read_idx(path: str | Path, axes: int) -> U8:
    """The bytes of an idx file, compressed or not. Raises DataError naming the file."""
    try:
        return parse_idx(Path(path).read_bytes(), axes, str(path))
    except OSError as cause:
        raise DataError(
            f"{path}: cannot read ({cause.strerror or cause})",
            fix="check the path and that the file may be read",
        ) from cause


def parse_idx(data: bytes, axes: int, where: str) -> U8:
    """The array in an idx file's bytes; `axes` is 3 for images, 1 for labels.

    Raises DataError if the magic number is another, or bytes are missing or left over.
    """
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as cause:
            raise DataError(
                f"{where}: damaged gzip file ({cause})", fix="get the file again"
            ) from cause
    head = 4 + 4 * axes
    magic = int.from_bytes(data[:4], "big")
    if magic != 0x800 + axes or len(data) < head:
        raise DataError(
            f"{where}: magic number {magic}, expected {0x800 + axes}",
            fix="images and labels may be exchanged; the former have 2051, the latter 2049",
        )
    shape = struct.unpack(f">{axes}I", data[4:head])
    if len(data) - head != math.prod(shape):
        raise DataError(
            f"{where}: {len(data) - head} bytes for shape {shape}, cut or padded",
            fix="get the file again",
        )
    return np.frombuffer(data, dtype=np.uint8, offset=head).reshape(shape)


def write_idx(path: str | Path, values: U8) -> None:
    """Write bytes as an idx file, whole or not at all."""
    head = struct.pack(f">{1 + values.ndim}I", 0x800 + values.ndim, *values.shape)
    with write_atomically(path, DataError) as part:
        part.write_bytes(head + values.tobytes())
