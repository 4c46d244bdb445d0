"""Code on vectors: what a loop over LDM rows does with each element, as data.

A formula written with Value becomes straight-line code: arguments, constants, then one value a
step. The same code is evaluated on numpy arrays, interpreted by the executors, and priced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from swcaffe.arrays import F32, Array

__all__ = [
    "OPERATIONS",
    "Operation",
    "Step",
    "Value",
    "VectorCode",
    "expm1",
    "maximum",
    "minimum",
    "power",
    "sqrt",
    "tanh",
    "trace",
    "where_less",
    "where_positive",
]


@dataclass(frozen=True, slots=True)
class Operation:
    """A step's meaning, and what it takes of the arithmetic pipeline for one vector.

    slots  issue slots of P0: one for an instruction of the machine, two for compare and select;
           for what the machine has no pipelined instruction for, an assumed length
    """

    meaning: Callable[..., Array]
    slots: int


def _select(mask: Array, a: Array, b: Array) -> Array:
    return np.asarray(np.where(mask, a, b))


OPERATIONS: dict[str, Operation] = {
    "add": Operation(np.add, 1),
    "sub": Operation(np.subtract, 1),
    "mul": Operation(np.multiply, 1),
    "max": Operation(np.maximum, 2),
    "min": Operation(np.minimum, 2),
    "where_positive": Operation(lambda x, a, b: _select(x > 0, a, b), 2),
    "where_less": Operation(lambda x, y, a, b: _select(x < y, a, b), 2),
    "div": Operation(np.divide, 30),  # (assumed) no published figure; not pipelined
    "sqrt": Operation(np.sqrt, 30),  # (assumed) the same
    "expm1": Operation(np.expm1, 18),  # (assumed) a polynomial of degree 7, scaled and corrected
    "tanh": Operation(np.tanh, 50),  # (assumed) one exponential, one division
    "power": Operation(np.power, 40),  # (assumed) logarithm, product, exponential
}
"""Name -> operation; their numbers in interpreters are their places here."""

Scalar: TypeAlias = "Value | float"


@dataclass(frozen=True, slots=True)
class Step:
    """One operation on earlier values, by number."""

    op: str
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VectorCode:
    """Straight-line code. Values are numbered: arguments, constants, steps.

    results  values that are stored, one row each
    """

    inputs: int
    constants: tuple[float, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def evaluate(self, arguments: Sequence[Array]) -> tuple[F32, ...]:
        """The results on float32 arrays that broadcast; every step rounds, as on the machine."""
        values = [*arguments, *(np.float32(c) for c in self.constants)]
        with np.errstate(all="ignore"):
            for step in self.steps:
                operands = (values[number] for number in step.operands)
                values.append(OPERATIONS[step.op].meaning(*operands))
        return tuple(np.asarray(values[number], np.float32) for number in self.results)

    def __str__(self) -> str:
        """Text: `t0 = max(x0, 0); t1 = mul(x1, t0) -> t1`."""
        names = [f"x{i}" for i in range(self.inputs)] + [f"{c:.9g}" for c in self.constants]
        lines = []
        for number, step in enumerate(self.steps):
            operands = ", ".join(names[operand] for operand in step.operands)
            lines.append(f"t{number} = {step.op}({operands})")
            names.append(f"t{number}")
        results = ", ".join(names[number] for number in self.results)
        return f"{'; '.join(lines)} -> {results}".strip()

    @property
    def slots(self) -> int:
        """Issue slots of the arithmetic pipeline for one vector."""
        return sum(OPERATIONS[step.op].slots for step in self.steps)


@dataclass(slots=True)
class _Recorder:
    """The code that Values write while a formula runs; equal steps are written once."""

    inputs: int
    constants: dict[float, Value] = field(default_factory=dict)
    steps: dict[tuple[str, tuple[Value, ...]], Value] = field(default_factory=dict)

    def step(self, op: str, operands: tuple[Scalar, ...]) -> Value:
        values = tuple(self.constant(x) if isinstance(x, int | float) else x for x in operands)
        key = (op, values)
        if key not in self.steps:
            self.steps[key] = Value(self, f"s{len(self.steps)}")
        return self.steps[key]

    def constant(self, value: float) -> Value:
        found = self.constants.get(value)
        if found is None:
            found = self.constants[value] = Value(self, f"c{len(self.constants)}")
        return found

    def numbers(self, arguments: Sequence[Value]) -> dict[Value, int]:
        ordered = (*arguments, *self.constants.values(), *self.steps.values())
        return {value: number for number, value in enumerate(ordered)}


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A vector inside a formula; arithmetic with it writes code."""

    recorder: _Recorder
    name: str

    def __add__(self, other: Scalar) -> Value:
        """Sum."""
        return self.recorder.step("add", (self, other))

    def __radd__(self, other: float) -> Value:
        """Sum."""
        return self.recorder.step("add", (other, self))

    def __sub__(self, other: Scalar) -> Value:
        """Difference."""
        return self.recorder.step("sub", (self, other))

    def __rsub__(self, other: float) -> Value:
        """Difference."""
        return self.recorder.step("sub", (other, self))

    def __mul__(self, other: Scalar) -> Value:
        """Product."""
        return self.recorder.step("mul", (self, other))

    def __rmul__(self, other: float) -> Value:
        """Product."""
        return self.recorder.step("mul", (other, self))

    def __truediv__(self, other: Scalar) -> Value:
        """Quotient."""
        return self.recorder.step("div", (self, other))


def maximum(x: Value, y: Scalar) -> Value:
    """The larger."""
    return x.recorder.step("max", (x, y))


def minimum(x: Value, y: Scalar) -> Value:
    """The smaller."""
    return x.recorder.step("min", (x, y))


def where_positive(x: Value, a: Scalar, b: Scalar) -> Value:
    """`a` where x > 0, else `b`."""
    return x.recorder.step("where_positive", (x, a, b))


def where_less(x: Value, y: Scalar, a: Scalar, b: Scalar) -> Value:
    """`a` where x < y, else `b`."""
    return x.recorder.step("where_less", (x, y, a, b))


def expm1(x: Value) -> Value:
    """e^x - 1."""
    return x.recorder.step("expm1", (x,))


def tanh(x: Value) -> Value:
    """Hyperbolic tangent."""
    return x.recorder.step("tanh", (x,))


def sqrt(x: Value) -> Value:
    """Square root."""
    return x.recorder.step("sqrt", (x,))


def power(x: Value, y: Scalar) -> Value:
    """x^y for x > 0."""
    return x.recorder.step("power", (x, y))


def trace(inputs: int, formula: Callable[..., Value | tuple[Value, ...]]) -> VectorCode:
    """The code of a formula of so many arguments; it returns one value or several."""
    recorder = _Recorder(inputs)
    arguments = [Value(recorder, f"x{i}") for i in range(inputs)]
    found = formula(*arguments)
    results = found if isinstance(found, tuple) else (found,)
    number = recorder.numbers(arguments)
    steps = tuple(Step(op, tuple(number[v] for v in vs)) for op, vs in recorder.steps)
    return VectorCode(
        inputs, tuple(recorder.constants), steps, tuple(number[value] for value in results)
    )
