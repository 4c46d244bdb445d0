"""HDF5Output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swcaffe.arrays import F32
from swcaffe.errors import DataError, ParameterError, ShapeError
from swcaffe.net.layer import LAYERS, Blobs, Layer, exactly

__all__ = ["HDF5Output"]

NAMES = ("data", "label")
"""Datasets, as Caffe calls them."""


@LAYERS.register("HDF5Output")
class HDF5Output(Layer):
    """Writes its bottoms into an HDF5 file, as datasets `data` and `label` of at least 4 axes.

    bottom[0], bottom[1]  (n, …), of one batch size
    Reads hdf5_output_param: file_name. The first forward pass replaces the file, later ones add
    their items to it (Caffe's second pass fails); between two passes the file is whole.
    """

    bottoms = exactly(2)
    tops = exactly(0)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read file_name."""
        name: str = self.param.hdf5_output_param.file_name
        if not name:
            raise ParameterError(
                "there is no file to write", fix="set file_name in hdf5_output_param"
            )
        self.path = Path(name)
        self.items = 0
        """Items written so far."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check that both bottoms have one batch size."""
        data, label = bottoms
        if data.shape[:1] != label.shape[:1] or not data.shape:
            raise ShapeError(
                f"bottoms {data!r} and {label!r} differ in the number of items",
                fix="feed as many labels as items",
            )

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Write the batch. Raises DataError if the file cannot be written."""
        batches = [_with_four_axes(bottom.data) for bottom in bottoms]
        if self.items:
            self._append(batches)
        else:
            self._create(batches)
        self.items += len(batches[0])

    def _create(self, batches: Sequence[F32]) -> None:
        from swcaffe.net.hdf5 import create_hdf5

        with create_hdf5(self.path, DataError) as file:
            for name, batch in zip(NAMES, batches, strict=True):
                file.create_dataset(name, data=batch, maxshape=(None, *batch.shape[1:]))

    def _append(self, batches: Sequence[F32]) -> None:
        import h5py

        try:
            with h5py.File(self.path, "r+") as file:
                for name, batch in zip(NAMES, batches, strict=True):
                    rows = file[name]
                    if rows.shape[1:] != batch.shape[1:]:
                        raise ShapeError(
                            f"items of shape {batch.shape[1:]} do not fit dataset {name} of "
                            f"{self.path}, which holds {rows.shape[1:]}",
                            fix="keep the items' shape, or write a file for each",
                        )
                    rows.resize(self.items + len(batch), axis=0)
                    rows[self.items :] = batch
        except (OSError, KeyError) as cause:
            raise DataError(
                f"cannot add to {self.path}: {cause}",
                fix="check that nobody else writes or removes the file, and that there is room",
            ) from cause

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Nothing: no gradient comes from a file."""
        for bottom, wanted in zip(bottoms, propagate_down, strict=True):
            if wanted:
                bottom.diff.fill(0)


def _with_four_axes(values: F32) -> F32:
    """(n, c) as (n, c, 1, 1): Caffe's datasets have four axes."""
    return values.reshape(*values.shape, *(1 for _ in range(4 - values.ndim)))
