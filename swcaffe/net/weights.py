"""Trained weights: copying them into a net, sharing them between nets, saving them.

The kind of a file (binary NetParameter or HDF5) is told by its content, as in Caffe.
"""

from __future__ import annotations

import logging
from pathlib import Path

from swcaffe.arrays import Shape
from swcaffe.errors import WeightsError
from swcaffe.net.net import Net
from swcaffe.proto import messages
from swcaffe.proto.binary import array_to_blob, blob_shape, blob_to_array, read_net_binary
from swcaffe.proto.binary import write as write_binary
from swcaffe.proto.messages import Message

__all__ = [
    "copy_weights",
    "is_hdf5",
    "load_weights",
    "net_to_message",
    "save_weights",
    "share_weights",
]

log = logging.getLogger(__name__)

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: Path) -> bool:
    """Whether the file's content is HDF5. Raises WeightsError if it cannot be opened."""
    try:
        with path.open("rb") as file:
            return file.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
    except OSError as error:
        raise WeightsError(
            f"cannot open weights {path}: {error.strerror}",
            fix="check the path and that the file may be read",
        ) from error


def load_weights(net: Net, path: str | Path) -> list[str]:
    """Copy weights by layer name from a caffemodel or HDF5 file.

    Layers that the net does not have are skipped with a line in the log; layers that the file does
    not have keep their values, and are returned. Raises WeightsError if blob counts or shapes
    differ, or if the file has none of the net's layers.
    """
    path = Path(path)
    if path.name.endswith((".solverstate", ".solverstate.h5")):
        raise WeightsError(
            f"{path} is a solver state, not weights",
            fix="pass the .caffemodel that was written beside it",
        )
    if is_hdf5(path):
        from swcaffe.net.hdf5 import load_hdf5

        found = load_hdf5(net, path)
    else:
        found = copy_weights(net, read_net_binary(path), str(path))
    learned = [layer.name for layer in net.layers if layer.blobs]
    missing = [name for name in learned if name not in found]
    if learned and len(missing) == len(learned):
        raise WeightsError(
            f"{path} has weights for none of the layers {', '.join(learned)}",
            fix="give the weights of a net with layers of these names",
        )
    if missing:
        log.info("%s has no weights for %s: they keep their values", path, ", ".join(missing))
    return missing


def _fits(source: Shape, target: Shape) -> bool:
    """Equal shapes, or equal but for ones in front (Caffe's old 4-dimensional files)."""
    width = max(len(source), len(target))
    return (1,) * (width - len(source)) + source == (1,) * (width - len(target)) + target


def _misfit(name: str, index: int, source: Shape, target: Shape, origin: str) -> WeightsError:
    return WeightsError(
        f'layer "{name}": parameter {index} has shape {source} in {origin} and {target} in the net',
        fix="rename the layer in the prototxt to train it anew, or make the shapes agree",
    )


def _check_count(name: str, theirs: int, ours: int, origin: str) -> None:
    if theirs != ours:
        raise WeightsError(
            f'layer "{name}" has {theirs} parameter blobs in {origin} and {ours} in the net',
            fix="make the layers alike (bias_term?), or rename the layer to train it anew",
        )


def copy_weights(net: Net, source: Message, origin: str) -> set[str]:
    """Copy weights (and gradients, if stored) from a NetParameter by layer name; return the names.

    Raises WeightsError for counts or shapes that differ.
    """
    targets = {layer.name: layer for layer in reversed(net.layers)}
    for stored in source.layer:
        target = targets.get(stored.name)
        if target is None:
            log.info("Ignoring source layer %s", stored.name, extra={"origin": "net.cpp:1"})
            continue
        _check_count(stored.name, len(stored.blobs), len(target.blobs), origin)
        for i, (proto, blob) in enumerate(zip(stored.blobs, target.blobs, strict=True)):
            if not _fits(blob_shape(proto), blob.shape):
                raise _misfit(stored.name, i, blob_shape(proto), blob.shape, origin)
            blob.data[...] = blob_to_array(proto).reshape(blob.shape)
            if proto.diff or proto.double_diff:
                blob.diff[...] = blob_to_array(proto, diff=True).reshape(blob.shape)
    return targets.keys() & {stored.name for stored in source.layer}


def share_weights(target: Net, source: Net) -> None:
    """Let `target` use `source`'s weights (not their gradients), matched by layer name."""
    layers = {layer.name: layer for layer in reversed(target.layers)}
    for theirs in source.layers:
        ours = layers.get(theirs.name)
        if ours is None:
            log.info("Ignoring source layer %s", theirs.name, extra={"origin": "net.cpp:1"})
            continue
        _check_count(theirs.name, len(theirs.blobs), len(ours.blobs), f'net "{source.name}"')
        for i, (a, b) in enumerate(zip(theirs.blobs, ours.blobs, strict=True)):
            if a.shape != b.shape:
                raise _misfit(theirs.name, i, a.shape, b.shape, f'net "{source.name}"')
            b.share_data(a)


def net_to_message(net: Net, *, diff: bool = False) -> Message:
    """A NetParameter of every layer with its parameters, weights and, with `diff`, gradients."""
    message = messages.NetParameter(name=net.name)
    for layer in net.layers:
        stored = message.layer.add()
        stored.CopyFrom(layer.param)
        del stored.blobs[:]
        stored.blobs.extend(array_to_blob(b.data, b.diff if diff else None) for b in layer.blobs)
    return message


def save_weights(net: Net, path: str | Path, *, diff: bool = False, hdf5: bool = False) -> None:
    """Write a binary caffemodel, or HDF5 if asked or the name ends in `.h5`."""
    path = Path(path)
    if hdf5 or path.suffix == ".h5":
        from swcaffe.net.hdf5 import save_hdf5

        save_hdf5(net, path, diff=diff)
    else:
        write_binary(path, net_to_message(net, diff=diff))
