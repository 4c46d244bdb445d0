"""What a solver is between two iterations, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from swcaffe.arrays import F32, Array

__all__ = ["SolverState"]


@dataclass
class SolverState:
    """A solver between two iterations.

    history   optimiser buffers: the first of every parameter, then the second
    extra     "net index/layer/key" -> array, and "solver/key" -> array
    seed      None in files written by Caffe, which does not keep it
    """

    iteration: int
    learned_net: str
    current_step: int
    history: list[F32]
    seed: int | None = None
    extra: dict[str, Array] = field(default_factory=dict)
