"""Sampled threshold: one pass over the gradient, for large tensors.

The threshold comes from a strided sample (Lin et al., "Deep gradient compression", ICLR 2018) and
is kept for five iterations (RedSync, JPDC 2019). Every time the number of elements above it is
checked against 0.8 k … 1.3 k; outside, the k largest are selected exactly.
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
        age = int(state["age"])
        state["age"] = np.array(age + 1, np.int64)
        if age % _KEPT_ITERATIONS == 0:
            state["threshold"] = np.array(sampled_threshold(flat, k, age), np.float64)
        limit = int(_MOST * k) + 1
        places, found = above(flat, float(state["threshold"]), limit)
        if _FEWEST * k <= found <= _MOST * k and np.isfinite(flat[places]).all():
            return places  # what is not finite is above every threshold
        check_finite(flat)
        return top_k(flat, k)
