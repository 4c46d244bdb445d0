"""Mean images: computing one over a database, writing and reading Caffe's binary form."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swcaffe.arrays import F32, F64
from swcaffe.data.database import Backend, open_database
from swcaffe.errors import DataError, WeightsError
from swcaffe.log import number
from swcaffe.proto import binary, messages

__all__ = ["MeanSummary", "compute_image_mean", "read_mean"]

log = logging.getLogger(__name__)

PROGRESS_EVERY = 10000


@dataclass(frozen=True, slots=True)
class MeanSummary:
    """The mean (c, h, w) of `count` pictures."""

    mean: F32
    count: int

    @property
    def channels(self) -> list[float]:
        """Mean of each channel, as one writes it into mean_value."""
        return [float(value) for value in self.mean.mean(axis=(1, 2), dtype=np.float64)]

    def __str__(self) -> str:
        """One line: how many pictures, and the mean of each channel."""
        means = " ".join(number(value) for value in self.channels)
        return f"mean of {self.count} pictures, by channel: {means}"


def read_mean(path: str | Path) -> F32:
    """The mean image in a binary BlobProto, (c, h, w).

    Raises DataError for a file that is missing, damaged, or holds anything but one picture.
    """
    blob = binary.read(path, messages.BlobProto, DataError)
    try:
        values = binary.blob_to_array(blob)
    except WeightsError as cause:
        raise DataError(
            f"{path}: {cause.message}", fix="make the file again with swcaffe compute_image_mean"
        ) from cause
    if values.ndim == 4 and values.shape[0] == 1:
        values = values[0]
    if values.ndim != 3:
        raise DataError(
            f"{path}: a mean of shape {values.shape}; it needs to be (channels, height, width)",
            fix="make it with compute_image_mean",
        )
    return values


def compute_image_mean(
    input_db: str | Path, output_file: str | Path | None = None, *, backend: Backend = "lmdb"
) -> MeanSummary:
    """The mean of all pictures of a database, written to `output_file` if one is given.

    Sums are kept in float64 (Caffe's in float32, which rounds over large sets): exact for bytes.
    The file has the legacy dimensions and float32 values, as Caffe's has. Raises DataError naming
    the record if two pictures differ in shape.
    """
    with open_database(input_db, backend) as source:
        if len(source) == 0:
            raise DataError(f"{input_db}: the database is empty", fix="put records into it first")
        total: F64 = np.zeros(source.read(0).data.shape, dtype=np.float64)
        for i in range(len(source)):
            record = source.read(i)
            if record.data.shape != total.shape:
                raise DataError(
                    f"{input_db}: record {record.key!r} has shape {record.data.shape}, "
                    f"those before {total.shape}",
                    fix="convert with resize_height and resize_width",
                )
            total += record.data
            if (i + 1) % PROGRESS_EVERY == 0:
                log.info("Processed %d files.", i + 1)
        summary = MeanSummary((total / len(source)).astype(np.float32), len(source))
    if output_file is not None:
        binary.write(output_file, _legacy_blob(summary.mean), DataError)
        log.info("Write to %s", output_file)
    log.info("Number of channels: %d", total.shape[0])
    for c, value in enumerate(summary.channels):
        log.info("mean_value channel [%d]: %s", c, number(value))
    return summary


def _legacy_blob(mean: F32) -> messages.Message:
    blob = binary.array_to_blob(mean)
    blob.ClearField("shape")
    blob.num = 1
    blob.channels, blob.height, blob.width = mean.shape
    return blob
