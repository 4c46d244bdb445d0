"""Tile fidelity: the mesh-level program, tile by tile out of an LDM of the mesh's size, in float32.

The LDMs of all CPEs of a core group are one array, in which a tile is an ordinary matrix. Each
worker thread is a core group with an LDM of its own; iterations of a parallel loop are dealt to the
workers in contiguous runs, so results do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from swcaffe.arrays import F32, Array, aligned_zeros
from swcaffe.errors import LdmError
from swcaffe.execute.flatten import Flat, Segment, flatten
from swcaffe.execute.kernels import run
from swcaffe.ir.stmt import MAX_PARAMS, Program
from swcaffe.machine.spec import Machine

__all__ = ["CoreGroups", "TileExecutor"]


class CoreGroups:
    """The LDMs and main memory scratch of the core groups that run programs, one for a thread."""

    def __init__(self, machine: Machine, threads: int) -> None:
        """LDMs of the machine's size; scratch grows with the programs that are prepared."""
        self.machine = machine
        words = machine.ldm.capacity_bytes // 4 * machine.mesh.cpes
        self.ldm: list[F32] = [aligned_zeros((words,)) for _ in range(threads)]
        self.private: list[F32] = [aligned_zeros((1,)) for _ in range(threads)]
        self.shared: F32 = aligned_zeros((1,))
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def reserve(self, flat: Flat) -> None:
        """Check a program's LDM use, and make room for its scratch."""
        peak, usable = flat.layout.ldm_peak_bytes, self.machine.ldm.usable_bytes
        if peak > usable:
            raise LdmError(f"{peak} B of {usable} B LDM on every CPE")
        if flat.layout.shared_count > self.shared.size:
            self.shared = aligned_zeros((flat.layout.shared_count,))
        if flat.layout.private_count > self.private[0].size:
            count = flat.layout.private_count
            self.private = [aligned_zeros((count,)) for _ in self.private]

    def run(self, flat: Flat, segment: Segment, params: tuple[F32, ...], *, shared: bool) -> None:
        """One segment; with `shared`, a parallel loop on all core groups at once."""
        workers = max(1, min(len(self.ldm), segment.extent)) if shared else 1
        bounds = [segment.extent * worker // workers for worker in range(workers + 1)]

        def work(worker: int) -> None:
            arrays = (*params, self.shared, self.private[worker], self.ldm[worker])
            low, high = bounds[worker], bounds[worker + 1]
            run(flat.code, segment.first, segment.last, low, high, arrays, flat.tables)

        if workers == 1 or self._pool is None:
            work(0)
            return
        others = [self._pool.submit(work, worker) for worker in range(1, workers)]
        work(0)
        for other in others:
            other.result()


class TileExecutor:
    """Runs one verified program many times."""

    def __init__(self, program: Program, groups: CoreGroups, *, shared: bool = True) -> None:
        """Flatten the program and reserve what it needs; `shared` lets all threads work on it."""
        self.program = program
        self._flat = flatten(program)
        self._groups, self._shared = groups, shared
        groups.reserve(self._flat)
        self._unused = (np.zeros(1, np.float32),) * (MAX_PARAMS - len(program.params))

    def run(self, arrays: Sequence[Array]) -> None:
        """Run on arrays that fit the parameters by count; all C-contiguous, of four bytes."""
        flat = tuple(_flat(array) for array in arrays)
        for segment in self._flat.segments:
            self._groups.run(self._flat, segment, flat + self._unused, shared=self._shared)


def _flat(array: Array) -> F32:
    """The array's words without shape; compiled code takes no read-only views."""
    flat: F32 = array.reshape(-1).view(np.float32)
    return flat if flat.flags.writeable and flat.flags.aligned else flat.copy()
