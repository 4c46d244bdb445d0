"""What an operator is: a frozen, data-free, hashable description of one computation.

The description is the key of plan caches and tuning records. It knows its operands, its
floating-point operations, and a plain numpy definition (`reference`) that every engine must match
within `tolerance()`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from swcaffe.arrays import Array, Shape
from swcaffe.errors import ShapeError

__all__ = ["Operand", "Operator"]


@dataclass(frozen=True, slots=True)
class Operand:
    """One array an operator reads or writes: C-contiguous, of this shape and dtype.

    accumulate  the result is added to what the array holds, instead of overwriting it
    """

    name: str
    shape: Shape
    dtype: str = "float32"
    accumulate: bool = False

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.count * np.dtype(self.dtype).itemsize


class Operator(ABC):
    """Base of all operators; subclasses are `@dataclass(frozen=True, slots=True)`."""

    __slots__ = ()

    aliases: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs (input, output) that may be the same array."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Operand, ...]:
        """Arrays read, in the order `reference` and plans take them."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Operand, ...]:
        """Arrays written, in the order plans take them after the inputs."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """Floating-point operations of the definition (a multiply-add is two)."""

    @abstractmethod
    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """The definition in plain numpy: new arrays, one per output, without accumulation."""

    @property
    def terms(self) -> int:
        """Longest sum that makes one output element; 1 for elementwise operators."""
        return 1

    def tolerance(self) -> float:
        """Largest ‖difference‖/‖reference‖ (2-norm) that float32 rounding of the terms gives."""
        return 4.0 * float(np.finfo(np.float32).eps) * max(1.0, math.sqrt(self.terms))

    def run_reference(self, *arrays: Array) -> None:
        """`reference` called as plans are: inputs then outputs, accumulating where declared."""
        split = len(self.inputs)
        results = self.reference(*arrays[:split])
        for operand, out, result in zip(self.outputs, arrays[split:], results, strict=True):
            if operand.accumulate:
                out += result.reshape(out.shape)
            else:
                out[...] = result.reshape(out.shape)

    def check(self, *arrays: Array) -> None:
        """Raise ShapeError unless `arrays` fit the operands by count, dtype and contiguity."""
        operands = self.inputs + self.outputs
        if len(arrays) != len(operands):
            raise ShapeError(
                f"{self} takes {len(operands)} arrays, got {len(arrays)}",
                fix="give the operands in their order",
            )
        for operand, array in zip(operands, arrays, strict=True):
            fits = array.size == operand.count and array.dtype == operand.dtype
            if not (fits and array.flags.c_contiguous):
                raise ShapeError(
                    f"operand {operand.name} of {self} must be C-contiguous {operand.dtype} "
                    f"{operand.shape}, got {array.dtype} {array.shape}",
                    fix="pass np.ascontiguousarray(array, dtype)",
                )
