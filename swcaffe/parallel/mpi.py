"""The communicator over MPI. Only this module imports mpi4py, and only when one is created.

`pip install mpi4py mpich` is a complete MPI without system packages; any other MPI will do. Every
operation is a non-blocking one that is polled: so each has a time-out, and a rank that waits does
not burn the core that another one needs. Settings that MPICH reads at its start are defaults only;
the environment overrides them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from swcaffe.arrays import Array
from swcaffe.errors import ParallelError
from swcaffe.parallel.communicator import Communicator, Request

__all__ = ["MpiCommunicator"]

_DEFAULTS = {
    # cuts gathers of unequal parts into 32 KB pieces otherwise: 2 to 4 times slower
    "MPIR_CVAR_ALLGATHERV_PIPELINE_MSG_SIZE": "16777216",
}
_LARGEST_COUNT = 2**31 - 1


class _MpiRequest(Request):
    """One MPI request; keeps its arrays alive."""

    def __init__(self, mpi: Any, request: Any, arrays: tuple[Array, ...], who: str) -> None:
        self._mpi = mpi
        self._request = request
        self._arrays = arrays
        self._who = who

    def test(self) -> bool:
        try:
            return bool(self._request.Test())
        except self._mpi.Exception as error:
            raise ParallelError(
                f"{self._who}: {error.Get_error_string()}", fix="see the logs of both ranks"
            ) from error


def _load_mpi() -> Any:
    """`mpi4py.MPI`, initialised with every thread free to call it."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        import mpi4py

        mpi4py.rc.thread_level = "multiple"
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ParallelError(
            f"MPI cannot be used: {error}", fix="pip install 'swcaffe[mpi]', or mpi4py over yours"
        ) from error
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise ParallelError(
            f"this MPI offers thread level {MPI.Query_thread()}, MPI_THREAD_MULTIPLE is needed",
            fix="use MPICH or Open MPI as their wheels build them",
        )
    return MPI


class MpiCommunicator(Communicator):
    """All ranks that mpiexec started; MPI is initialised by the first one created."""

    def __init__(self, timeout_s: float = 300.0, *, _handle: Any = None) -> None:
        """The world, or the ranks of `_handle`."""
        self._mpi = _load_mpi()
        self._comm = self._mpi.COMM_WORLD.Dup() if _handle is None else _handle
        self._comm.Set_errhandler(self._mpi.ERRORS_RETURN)
        super().__init__(self._comm.Get_rank(), self._comm.Get_size(), timeout_s)

    def _request(self, request: Any, who: str, *arrays: Array) -> Request:
        return _MpiRequest(self._mpi, request, arrays, f"rank {self.rank} {who}")

    def _finish(self, request: Any, what: str, *arrays: Array) -> None:
        """Wait for a collective, in which every peer has a part."""
        waiting = self._request(request, f"in {what}", *arrays)
        if not waiting.wait(self.timeout_s):
            raise self.late(f"any of {self.size} ranks", what)

    def isend(self, array: Array, to: int, tag: int = 0) -> Request:
        """Non-blocking send of a contiguous array."""
        return self._request(self._comm.Isend(array, to, tag), f"to rank {to}", array)

    def irecv(self, array: Array, source: int, tag: int = 0) -> Request:
        """Non-blocking receive into a contiguous array."""
        return self._request(self._comm.Irecv(array, source, tag), f"from rank {source}", array)

    def barrier(self) -> None:
        """MPI's own."""
        self._finish(self._comm.Ibarrier(), "barrier")

    def bcast(self, array: Array, root: int = 0, what: str = "broadcast") -> None:
        """MPI's own."""
        self._finish(self._comm.Ibcast(array, root), what, array)

    def allgatherv(
        self, array: Array, counts: Sequence[int], what: str = "allgather"
    ) -> list[Array]:
        """MPI's own, into one array of which the parts are views."""
        if array.size != counts[self.rank] or sum(counts) > _LARGEST_COUNT:
            return super().allgatherv(array, counts, what)
        starts = np.concatenate(([0], np.cumsum(counts)))
        whole = np.empty(starts[-1], array.dtype)
        request = self._comm.Iallgatherv(array, [whole, counts])
        self._finish(request, what, array, whole)
        return [whole[a:b] for a, b in pairwise(starts)]

    def native_allreduce(self, array: Array, what: str = "allreduce") -> None:
        """MPI's own; for a fixed number of ranks its order of adding is fixed."""
        self._finish(self._comm.Iallreduce(self._mpi.IN_PLACE, array), what, array)

    def duplicate(self) -> MpiCommunicator:
        """MPI_Comm_dup."""
        return MpiCommunicator(self.timeout_s, _handle=self._comm.Dup())

    def abort(self, code: int) -> None:
        """MPI_Abort, and leave even if the library returns."""
        self._mpi.COMM_WORLD.Abort(code)
        os._exit(code)
