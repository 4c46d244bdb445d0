"""PowerSGD: a matrix of low rank from one step of subspace iteration, started where the last ended.

Vogels, Karimireddy, Jaggi, "PowerSGD: practical low-rank gradient compression", NeurIPS 2019,
algorithms 1 and 2: P = sum M Q, orthonormalised; Q = sum M' P; the sum is about P Q'.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from swcaffe.arrays import F32, Array, Shape
from swcaffe.parallel.compressors.base import COMPRESSORS, State, Summing
from swcaffe.parallel.selection import check_finite
from swcaffe.streams import stream

__all__ = ["PowerSgd"]

_RANK = 4


@COMPRESSORS.register("powersgd")
class PowerSgd(Summing):
    """Tensors as matrices, first axis by the rest; rank 4. State: `q` (columns, rank)."""

    name = "powersgd"

    def new_state(self, shape: Shape, name: str = "") -> State:
        """Directions drawn alike on all ranks."""
        rows = shape[0] if shape else 1
        cols = int(np.prod(shape[1:], dtype=np.int64))
        draw = stream(self.seed, f"powersgd/{name}")
        rank = min(_RANK, rows, cols)
        return {"q": draw.standard_normal((cols, rank)).astype(np.float32)}

    def steps(self, flat: F32, state: State, total: F32, sent: F32) -> Iterator[Array]:
        """Two sums, over P and over Q."""
        check_finite(flat)
        matrix = flat.reshape(-1, state["q"].shape[0])
        p: F32 = matrix @ state["q"]
        yield p
        p = _orthonormal(p)
        q: F32 = matrix.T @ p
        sent[:] = (p @ q.T).reshape(-1)
        yield q
        # a direction in which nothing was found is tried again: zero would stay zero for ever
        state["q"] = np.where(np.any(q, axis=0), q, state["q"])
        total[:] = (p @ q.T).reshape(-1)


def _orthonormal(matrix: F32) -> F32:
    """Columns made orthonormal (modified Gram-Schmidt in double); dependent ones become zero."""
    found = matrix.astype(np.float64)
    for i in range(found.shape[1]):
        before = float(np.linalg.norm(found[:, i]))
        for _ in range(2):
            found[:, i] -= found[:, :i] @ (found[:, :i].T @ found[:, i])
        norm = float(np.linalg.norm(found[:, i]))
        found[:, i] = found[:, i] / norm if norm > 1e-7 * before else 0.0
    return found.astype(np.float32)
