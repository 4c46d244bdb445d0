"""Solver states: everything beside the weights that a run needs to continue exactly.

A state is Caffe's SolverState (iteration, name of the weight file, optimiser history) and, in a
field that Caffe skips, ours: the seed and the state of every layer that has one (data position,
random draws, carried hidden states). Weights are written first and the state that names them last,
each beside its place and renamed, so the newest state on disk always has its weights; a digest of
them in the state tells whether another run has overwritten them meanwhile.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
from pathlib import Path

import numpy as np

from swcaffe.arrays import Array
from swcaffe.errors import ParameterError, SnapshotError
from swcaffe.net.weights import is_hdf5
from swcaffe.proto import messages
from swcaffe.proto.binary import array_to_blob, blob_to_array
from swcaffe.proto.binary import read as read_binary
from swcaffe.proto.binary import write as write_binary
from swcaffe.solver.state import SolverState

__all__ = [
    "WEIGHTS_DIGEST",
    "find_weights",
    "probe_prefix",
    "read_state",
    "weights_digest",
    "write_state",
]

log = logging.getLogger(__name__)

WEIGHTS_DIGEST = "solver/weights"
"""Key of the weights' digest in a state's extra arrays."""


def probe_prefix(prefix: str, interval: int) -> None:
    """Make the snapshot folder, and find out before training if it cannot be written.

    Raises ParameterError if there is an interval but no prefix, SnapshotError if writing fails.
    """
    if not prefix:
        if interval:
            raise ParameterError(
                f"snapshot is {interval} but there is no snapshot_prefix", fix="set snapshot_prefix"
            )
        return
    probe = Path(f"{prefix}.{os.getpid()}.probe")
    try:
        probe.parent.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SnapshotError(
            f"cannot write to snapshot prefix {prefix}: {error.strerror}",
            fix="point snapshot_prefix to a folder that can be written",
        ) from error


def _pack(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=False)
    return buffer.getvalue()


def _unpack(data: bytes) -> Array:
    result: Array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    return result


def write_state(path: Path, state: SolverState) -> None:
    """Write a state, binary or (name ends in `.h5`) HDF5. Raises SnapshotError."""
    if path.suffix == ".h5":
        from swcaffe.solver.hdf5 import write_hdf5

        write_hdf5(path, state)
        return
    message = messages.SolverState(
        iter=state.iteration,
        learned_net=state.learned_net,
        current_step=state.current_step,
        history=[array_to_blob(h) for h in state.history],
    )
    if state.seed is not None:
        message.swcaffe.random_seed = state.seed
    for name, array in state.extra.items():
        message.swcaffe.generator.add(name=name, state=_pack(array))
    write_binary(path, message, error=SnapshotError)


def weights_digest(path: Path) -> Array:
    """16 bytes that tell a weight file's content from any other's. Raises SnapshotError."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise SnapshotError(
            f"cannot read weights {path}: {error.strerror}", fix="check the file"
        ) from error
    return np.frombuffer(digest.digest(), np.uint8)


def find_weights(path: Path, state: SolverState) -> Path:
    """The weights that the state in `path` names, looked for beside it first.

    So a pair of files that was moved or copied stays a pair. Raises SnapshotError if there are
    none, or only a file that was damaged or overwritten since (states of Caffe cannot tell).
    """
    named = Path(state.learned_net)
    found = [p for p in (path.with_name(named.name), named) if p.is_file()]
    if not found:
        raise SnapshotError(
            f"{path} names the weights {named}, which do not exist",
            fix=f"put {named.name} beside it",
        )
    digest = state.extra.get(WEIGHTS_DIGEST)
    for candidate in found:
        if digest is None or np.array_equal(weights_digest(candidate), digest):
            return candidate
    raise SnapshotError(
        f"{path} names the weights {found[0]}, which are not those saved with it: the file is "
        "damaged, or another run has written it since",
        fix="resume from another snapshot, or restore the file",
    )


def read_state(path: Path) -> SolverState:
    """Read a state; its kind is told by the content. Raises SnapshotError."""
    if path.name.endswith((".caffemodel", ".caffemodel.h5")):
        stem = path.name.split(".caffemodel")[0]
        raise SnapshotError(
            f"{path} holds weights, not a solver state",
            fix=f"pass {path.with_name(stem + '.solverstate')} to continue a run, "
            "or give this file as --weights to start a new one from it",
        )
    if not path.is_file():
        raise SnapshotError(
            f"no solver state {path}",
            fix="check the path; it ends in .solverstate or .solverstate.h5",
        )
    if is_hdf5(path):
        from swcaffe.solver.hdf5 import read_hdf5

        return read_hdf5(path)
    message = read_binary(path, messages.SolverState, error=SnapshotError)
    if not message.HasField("iter"):
        raise SnapshotError(
            f"{path} is not a solver state: it has no iteration",
            fix="pass the .solverstate that was written beside the weights",
        )
    own = message.swcaffe
    try:
        extra = {entry.name: _unpack(entry.state) for entry in own.generator}
    except ValueError as error:
        raise SnapshotError(
            f"{path} is damaged: {error}", fix="resume from an earlier one"
        ) from error
    return SolverState(
        iteration=message.iter,
        learned_net=message.learned_net,
        current_step=message.current_step,
        history=[blob_to_array(blob) for blob in message.history],
        seed=own.random_seed if own.HasField("random_seed") else None,
        extra=extra,
    )
