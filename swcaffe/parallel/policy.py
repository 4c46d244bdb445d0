"""What is sent how, and when: size classes, densities over time, clipping before compression.

The published recipe (RedSync, JPDC 2019): tensors below 128 KB dense, to 4 MB by trimmed top-k,
above by a sampled threshold; biases dense; the output layer never quantised; dense in the first
epochs. Lin et al. (ICLR 2018) lower the density step by step instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swcaffe.arrays import F32, Shape
from swcaffe.errors import ParameterError

__all__ = ["DensitySchedule", "SizeClasses", "clip_locally"]

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class SizeClasses:
    """Which compressor a tensor gets, by its bytes.

    dense_below_bytes    the latency of a message is then about its transfer time
    trimmed_below_bytes  above, one pass over the tensor has to do
    quantised            alternating signs for all but the output layer
    """

    dense_below_bytes: int = 128 * 1024
    trimmed_below_bytes: int = 4 * 1024 * 1024
    quantised: bool = False

    def choose(self, shape: Shape, *, is_output: bool = False) -> str:
        """A compressor's name; vectors (biases, scales) and small tensors are sent as they are."""
        nbytes = _FLOAT_BYTES * math.prod(shape)
        if sum(extent > 1 for extent in shape) < 2 or nbytes < self.dense_below_bytes:
            return "none"
        if self.quantised and not is_output:
            return "asq"
        return "topk" if nbytes < self.trimmed_below_bytes else "sampled"


@dataclass(frozen=True, slots=True)
class DensitySchedule:
    """Density as a function of the iteration.

    steps             densities in turn, each for `iterations_each`; 1 stands for dense
    final             density ever after
    """

    final: float = 0.001
    steps: Sequence[float] = ()
    iterations_each: int = 0

    def __post_init__(self) -> None:
        """ParameterError unless every density is in (0, 1]."""
        for density in (*self.steps, self.final):
            if not 0 < density <= 1:
                raise ParameterError(
                    f"density {density:g} in the schedule: 0 < density <= 1",
                    fix="give shares of the elements, such as 0.25, 0.0625, 0.001",
                )

    @classmethod
    def geometric(cls, iterations_each: int, final: float = 0.001) -> DensitySchedule:
        """A quarter at first, then a quarter of that, as long as it is above `final`."""
        count = max(0, math.ceil(math.log(final, 0.25)) - 1)
        return cls(final, tuple(0.25 ** (i + 1) for i in range(count)), iterations_each)

    @classmethod
    def dense_first(cls, iterations: int, final: float = 0.001) -> DensitySchedule:
        """Dense for `iterations`."""
        return cls(final, (1.0,), iterations)

    def density(self, iteration: int) -> float:
        """Share of the elements sent at an iteration, counted from 0."""
        step = iteration // self.iterations_each if self.iterations_each else len(self.steps)
        return self.steps[step] if step < len(self.steps) else self.final

    def describe(self) -> str:
        """One line for the log: the share left out at each step, in percent."""
        shares = [f"{100 * (1 - d):.4g}" for d in (*self.steps, self.final)]
        return f"sparsity {', '.join(shares)} %, {self.iterations_each} iterations each"


def clip_locally(gradients: Sequence[F32], threshold: float, size: int) -> float:
    """Scale gradients in place to a common norm of at most threshold / sqrt(size), before the sum.

    Independent gradients of norm c / sqrt(N) on N ranks add up to one of norm c. Returns the norm
    before.
    """
    norm = math.sqrt(sum(float(np.vdot(g, g.astype(np.float64))) for g in gradients))
    limit = threshold / math.sqrt(size)
    if norm > limit:
        for gradient in gradients:
            gradient *= np.float32(limit / norm)
    return norm
