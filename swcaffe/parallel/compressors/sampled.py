"""Sampled threshold: one pass over the gradient, for large tensors.

The threshold comes from a strided sample (Lin et al., "Deep gradient compression", ICLR 2018) and
serves up to five iterations (RedSync, JPDC 2019). Every time the number of elements above it is
checked against 0.8 k … 1.3 k: a kept threshold that fails is replaced, and where a new one fails,
the k largest are selected exactly.
"""

from __future__ import annotations

import numpy as np

from swcaffe.arrays import F32, I64, Shape
from swcaffe.parallel.compressors._sparse import Sparse
from swcaffe.parallel.compressors.base import COMPRESSORS, State, entries_kept
from swcaffe.parallel.selection import above, check_finite, sampled_threshold, top_k

__all__ = ["SampledThreshold"]

_KEPT_ITERATIONS = 5
_FEWEST, _MOST = 0.8, 1.3


@COMPRESSORS.register("sampled")
class SampledThreshold(Sparse):
    """State: `threshold` (float64) and `age` (int64), the iterations it has served."""

    name = "sampled"
    code = 5

    def new_state(self, shape: Shape, name: str = "") -> State:
        """No threshold yet."""
        return {"threshold": np.zeros((), np.float64), "age": np.zeros((), np.int64)}

    def select(self, flat: F32, state: State) -> I64:
        """Above the kept threshold or a new one, or exactly k where that gives a wrong number."""
        k = entries_kept(flat.size, self.density)
        if k == flat.size:
            check_finite(flat)
            return np.arange(k)
        age = int(state["age"]) % _KEPT_ITERATIONS
        places = _about(k, flat, float(state["threshold"])) if age else None
        if places is None:
            age = 0
            state["threshold"] = np.array(sampled_threshold(flat, k), np.float64)
            places = _about(k, flat, float(state["threshold"]))
        state["age"] = np.array(age + 1, np.int64)
        if places is None:
            check_finite(flat)
            return top_k(flat, k)
        return places


def _about(k: int, flat: F32, threshold: float) -> I64 | None:
    """Places above `threshold`, if their number is about k and they are finite.

    What is not finite is above every threshold, so no pass of its own is needed to find it.
    """
    places, found = above(flat, threshold, int(_MOST * k) + 1)
    good = _FEWEST * k <= found <= _MOST * k and np.isfinite(flat[places]).all()
    return places if good else None
