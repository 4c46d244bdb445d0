"""The LDMs of a mesh: private contents of each CPE, and what may be done with every word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import F32, F64, I32, I64, U8, aligned_zeros
from swcaffe.errors import LdmError
from swcaffe.execute.lockstep.kernels import (
    ARRIVING,
    LEAVING,
    UNWRITTEN,
    WRITTEN,
    claim,
    first_not,
)
from swcaffe.ir.buffer import Buffer
from swcaffe.machine.spec import Machine

__all__ = ["Box", "Ldms"]


@dataclass(frozen=True, slots=True)
class Box:
    """A region of a buffer as all CPEs have it, in elements of four axes.

    extents (cpes, 4), strides (4,); words for each element.
    """

    buffer: Buffer
    at: int
    extents: I64
    strides: I64
    words: int


class Ldms:
    """One LDM for each CPE: the same bytes as three types, and the state of each word."""

    def __init__(self, machine: Machine) -> None:
        """All words undefined: their contents are signalling patterns, not zeros."""
        words = machine.ldm.capacity_bytes // 4
        self.mesh = machine.mesh
        self.capacity_bytes = machine.ldm.usable_bytes
        self.floats: F32 = aligned_zeros((machine.mesh.cpes, words))
        self.floats[...] = np.nan
        self.doubles: F64 = self.floats.view(np.float64)
        self.ints: I32 = self.floats.view(np.int32)
        self.state: U8 = np.zeros((machine.mesh.cpes, words), np.uint8)
        self._octets = self.state.view(np.uint64)
        self.peak_bytes = 0

    def allocate(self, offset_bytes: int, size_bytes: int) -> None:
        """Make room for a buffer on every CPE; what it holds is undefined."""
        end = offset_bytes + size_bytes
        if end > self.capacity_bytes:
            raise LdmError(f"{end} B of {self.capacity_bytes} B LDM on every CPE")
        self.peak_bytes = max(self.peak_bytes, end)
        self.state[:, offset_bytes // 4 : end // 4] = UNWRITTEN
        self.floats[:, offset_bytes // 4 : end // 4] = np.nan

    def view(self, at: int, shape: Sequence[int], strides: Sequence[int]) -> F32:
        """Floats of all CPEs from element `at` on: (cpes, *shape), writable, without a check."""
        words = self.floats.strides[0]
        steps = (words, *(4 * int(stride) for stride in strides))
        extents = (self.floats.shape[0], *(int(n) for n in shape))
        found: F32 = np.lib.stride_tricks.as_strided(self.floats[:, at:], extents, steps)
        return found

    def require(self, box: Box, verb: str) -> None:
        """Every word must be readable."""
        self._check(box, WRITTEN, WRITTEN, verb)

    def write(self, box: Box, verb: str) -> None:
        """No word may be under way; all become readable."""
        self._check(box, ARRIVING, UNWRITTEN, verb)
        self.mark(box, WRITTEN)

    def write_on(self, cpe: int, box: Box) -> None:
        """`write` on one CPE alone: the box has its extents only."""
        claim(self.state[cpe : cpe + 1], box.at, box.extents, box.strides, box.words, WRITTEN)

    def mark(self, box: Box, value: int) -> None:
        """Set the state of every word."""
        claim(self.state, box.at, box.extents, box.strides, box.words, value)

    def _check(self, box: Box, mask: int, wanted: int, verb: str) -> None:
        """Every state & mask must be `wanted`."""
        cpe = first_not(
            self.state, self._octets, box.at, box.extents, box.strides, box.words, mask, wanted
        )
        if cpe >= 0:
            row, col = divmod(int(cpe), self.mesh.cols)
            raise LdmError(f"CPE ({row}, {col}) {verb} {box.buffer.name}, {self._why(box, cpe)}")

    def _why(self, box: Box, cpe: int) -> str:
        """What is the matter with the box on this CPE."""
        axes = (np.arange(n) * step for n, step in zip(box.extents[cpe], box.strides, strict=True))
        index = sum(np.ix_(*axes), np.int64(box.at))
        states = set(self.state[cpe, np.ravel(index * box.words)].tolist())
        if ARRIVING in states:
            return "which a copy still fills"
        return "which a copy still reads" if LEAVING in states else "which was never written"
