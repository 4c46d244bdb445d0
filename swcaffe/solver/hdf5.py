"""Solver states in HDF5, in Caffe's layout; what is ours lies in the group `swcaffe`."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from swcaffe.errors import SnapshotError
from swcaffe.net.hdf5 import create_hdf5
from swcaffe.solver.state import SolverState

__all__ = ["read_hdf5", "write_hdf5"]


def write_hdf5(path: Path, state: SolverState) -> None:
    """Write a state. Raises SnapshotError."""
    with create_hdf5(path, SnapshotError) as file:
        file.create_dataset("iter", data=np.array([state.iteration], np.int32))
        file.create_dataset("learned_net", data=np.bytes_(state.learned_net.encode()))
        file.create_dataset("current_step", data=np.array([state.current_step], np.int32))
        history = file.create_group("history")
        for i, array in enumerate(state.history):
            history.create_dataset(str(i), data=array)
        own = file.create_group("swcaffe")
        if state.seed is not None:
            own.attrs["random_seed"] = np.uint64(state.seed)
        for i, (name, array) in enumerate(state.extra.items()):
            own.create_dataset(str(i), data=array).attrs["name"] = name


def read_hdf5(path: Path) -> SolverState:
    """Read a state. Raises SnapshotError for files that are damaged or of another kind."""
    try:
        with h5py.File(path, "r") as file:
            history = file["history"]
            own = file.get("swcaffe", {})
            return SolverState(
                iteration=int(np.asarray(file["iter"]).reshape(-1)[0]),
                learned_net=bytes(np.asarray(file["learned_net"]).item()).split(b"\0")[0].decode(),
                current_step=int(np.asarray(file["current_step"]).reshape(-1)[0]),
                history=[history[str(i)][()] for i in range(len(history))],
                seed=int(own.attrs["random_seed"]) if own and "random_seed" in own.attrs else None,
                extra={own[key].attrs["name"]: own[key][()] for key in own},
            )
    except (OSError, KeyError, ValueError) as error:
        raise SnapshotError(
            f"cannot read solver state {path}: {error}",
            fix="the file is cut short, damaged, or of another kind",
        ) from error
