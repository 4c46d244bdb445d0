"""Weight files in HDF5: group `data` (and `diff`), a group for each layer, datasets `0`, `1`, …"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from swcaffe.errors import SwcaffeError, WeightsError
from swcaffe.files import write_atomically
from swcaffe.net.layer import Layer
from swcaffe.net.net import Net

__all__ = ["create_hdf5", "load_hdf5", "save_hdf5"]

log = logging.getLogger(__name__)


@contextmanager
def create_hdf5(path: Path, error: type[SwcaffeError]) -> Iterator[h5py.File]:
    """A new HDF5 file, at `path` once it is complete. Raises `error` as `write_atomically` does."""
    with write_atomically(path, error) as beside:
        try:
            with h5py.File(beside, "w") as file:
                yield file
        except RuntimeError as cause:  # what h5py makes of a disk that is full on closing
            raise OSError(errno.EIO, str(cause).partition(" (")[0]) from cause


def load_hdf5(net: Net, path: Path) -> set[str]:
    """Copy weights by layer name; return the names. Raises WeightsError as `copy_weights` does."""
    targets = {layer.name: layer for layer in reversed(net.layers)}
    shared = {(p.layer.name, p.index) for p in net.params if not p.is_owner}
    try:
        with h5py.File(path, "r") as file:
            if "data" not in file:
                raise WeightsError(
                    f"{path} has no group `data`: not a weight file",
                    fix="give a file that swcaffe or Caffe wrote",
                )
            groups = file["data"]
            for name in groups:
                if not any(f"{target}/".startswith(f"{name}/") for target in targets):
                    log.info("Ignoring source layer %s", name, extra={"origin": "net.cpp:1"})
            for name, layer in targets.items():
                if name in groups:
                    _load_layer(layer, groups[name], shared, path)
            return {name for name in targets if name in groups}
    except (OSError, KeyError) as error:
        raise WeightsError(
            f"cannot read weights {path}: {error}",
            fix="the file is cut short, damaged, or of another kind",
        ) from error


def _load_layer(layer: Layer, group: Any, shared: set[tuple[str, int]], path: Path) -> None:
    stored = sum(key.isdecimal() for key in group)  # "a" may hold layer "a/b" beside its own blobs
    if stored > len(layer.blobs):
        raise WeightsError(
            f'layer "{layer.name}" has {stored} parameter blobs in {path} '
            f"and {len(layer.blobs)} in the net",
            fix="make the layers alike (bias_term?), or rename the layer to train it anew",
        )
    for i, blob in enumerate(layer.blobs):
        if str(i) not in group:
            if (layer.name, i) in shared:
                continue
            raise WeightsError(
                f'layer "{layer.name}": {path} has no parameter {i}',
                fix="save it again from a net that has this parameter",
            )
        data = group[str(i)]
        if tuple(data.shape) != blob.shape:
            raise WeightsError(
                f'layer "{layer.name}": parameter {i} has shape {tuple(data.shape)} in {path} '
                f"and {blob.shape} in the net",
                fix="rename the layer in the prototxt to train it anew, or make the shapes agree",
            )
        blob.data[...] = data[()]


def save_hdf5(net: Net, path: Path, *, diff: bool = False) -> None:
    """Write every layer's group; shared weights stand in their owner's group only."""
    owners = {(p.layer.name, p.index) for p in net.learnable_params}
    with create_hdf5(path, WeightsError) as file:
        data = file.create_group("data")
        gradients = file.create_group("diff") if diff else None
        for layer in net.layers:
            group = data.require_group(layer.name)
            for i, blob in enumerate(layer.blobs):
                if (layer.name, i) in owners:
                    group.create_dataset(str(i), data=blob.data)
            if gradients is not None:
                group = gradients.require_group(layer.name)
                for i, blob in enumerate(layer.blobs):
                    group.create_dataset(str(i), data=blob.diff)
