"""Error feedback: what a compressor leaves out of a tensor is kept and offered again.

With momentum correction the momentum is applied before the selection, so that a delayed element
carries the velocity it would have had. Factor masking stops the velocity of what was just sent.

    u = m u + g;  v = v + u                      Nesterov: u = m (u + g);  v = v + u + g
    send part of v;  v = v - sent;  u = 0 where something was sent

Lin et al., "Deep gradient compression", ICLR 2018; RedSync, JPDC 2019. The learning rate is applied
after the exchange, so a change of rate acts on what is left, too.
"""

from __future__ import annotations

import math

import numpy as np

from swcaffe.arrays import F32, I64, Array, Shape, aligned_zeros
from swcaffe.errors import SnapshotError
from swcaffe.parallel.compressors import Compressor, State
from swcaffe.parallel.compressors.none import NoCompression
from swcaffe.parallel.kernels import accumulate
from swcaffe.parallel.selection import check_finite

__all__ = ["Residual"]


class Residual:
    """What is still to be sent of one tensor, its velocity, and the compressor's state.

    current     the compressor with the density of this iteration
    momentum    0: the solver applies momentum after the sum; else it must not
    masking     clears the velocity of what was sent. With density 1 that is all of it: then only
                without masking is the path that of plain momentum
    """

    def __init__(
        self,
        name: str,
        shape: Shape,
        compressor: Compressor,
        *,
        momentum: float = 0.0,
        nesterov: bool = False,
        masking: bool = True,
    ) -> None:
        """Nothing is left over at first."""
        self.name = name
        self.shape = shape
        self.compressor = compressor
        self.current = compressor
        self.momentum = momentum
        self.nesterov = nesterov
        self.masking = masking
        count = math.prod(shape)
        self.left: F32 = aligned_zeros((count,))
        self.velocity: F32 = aligned_zeros((count if momentum else 0,))
        self.memory: State = compressor.new_state(shape, name)

    def offer(self, gradient: F32) -> F32:
        """Take this iteration's flat gradient in; what may be sent, which belongs to this object.

        Raises NumericsError, with nothing changed, if an element is not finite.
        """
        check_finite(gradient)
        if self.momentum:
            m = np.float32(self.momentum)
            accumulate(gradient, self.velocity, self.left, m, self.nesterov)
        else:
            with np.errstate(over="ignore"):  # an infinity is refused when it is to be sent
                self.left += gradient
        return self.left

    def mask(self, places: I64 | None) -> None:
        """Clear the velocity of what was sent; `None` sent a little of everything: no masking."""
        if self.momentum and self.masking and places is not None:
            self.velocity[places] = 0

    def use_density(self, density: float) -> None:
        """Send this share from now on; all of it, uncompressed and unmasked, if it is 1."""
        whole = density == 1
        self.current = NoCompression() if whole else self.compressor.with_density(density)

    def norm(self) -> float:
        """Euclidean norm of what is left, for reports."""
        return float(np.linalg.norm(self.left))

    def state(self) -> State:
        """All that a snapshot must keep; copies."""
        kept = {f"compressor/{key}": value.copy() for key, value in self.memory.items()}
        return kept | {"left": self.left.copy(), "velocity": self.velocity.copy()}

    def load_state(self, state: State) -> None:
        """Continue from `state`; SnapshotError if it is that of another tensor or compressor."""
        expected = self.state()
        for key in sorted(expected.keys() | state.keys()):
            here, there = expected.get(key), state.get(key)
            if here is None or there is None or here.shape != there.shape:
                raise SnapshotError(
                    f"residual of {self.name}: {key} is {_shape(there)}, expected {_shape(here)}",
                    fix="resume with the compressor and momentum of the snapshot's run",
                )
        self.left[:] = state["left"]
        self.velocity[:] = state["velocity"]
        self.memory = {key: state[f"compressor/{key}"].copy() for key in self.memory}


def _shape(array: Array | None) -> str:
    return "missing" if array is None else str(array.shape)
