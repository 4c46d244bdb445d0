"""Loops over rows of floats in the LDM: what one output vector costs when both pipelines are used.

A kernel loads a vector from each of its inputs, computes, and stores one vector. Unrolled copies
use registers of their own, so that the latency of one hides behind the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from swcaffe.errors import ScheduleError, unknown_name
from swcaffe.machine.pipeline import Pipeline
from swcaffe.microkernel.isa import ZERO, Code, Instruction, Loop
from swcaffe.microkernel.order import Modulo, allocate, modulo

__all__ = ["KERNELS", "Rows", "best", "body", "per_vector", "rows"]

VECTOR_BYTES = 32
"""From one vector to the next: a number a word, as in the interpreter's LDM."""
COPIES = (1, 2, 3, 4, 6)
"""Unrolling tried."""

Compute = Callable[[list[str], str], list[Instruction]]
"""(input registers, scratch register) -> instructions; the result is in the first input's."""


@dataclass(frozen=True, slots=True)
class Rows:
    """`inputs` rows in, one row out: rows of one kernel do not overlap."""

    inputs: int
    compute: Compute


def _binary(op: str) -> Compute:
    return lambda x, _: [Instruction(op, x[0], (x[0], x[1]))]


def _axpy(x: list[str], _: str) -> list[Instruction]:
    return [Instruction("vmad", x[0], ("alpha", x[0], x[1]))]


def _relu(x: list[str], mask: str) -> list[Instruction]:
    return [
        Instruction("vfcmplt", mask, (ZERO, x[0])),
        Instruction("vselne", x[0], (mask, x[0], ZERO)),
    ]


def _maximum(x: list[str], mask: str) -> list[Instruction]:
    """Fold the inputs; the compare and the select of one step wait for those before."""
    code = []
    for other in x[1:]:
        code += [
            Instruction("vfcmplt", mask, (x[0], other)),
            Instruction("vselne", x[0], (mask, other, x[0])),
        ]
    return code


KERNELS: dict[str, Rows] = {
    "copy": Rows(1, lambda x, mask: []),
    "relu": Rows(1, _relu),
    "add": Rows(2, _binary("vaddd")),
    "mul": Rows(2, _binary("vmuld")),
    "axpy": Rows(2, _axpy),
    "max2": Rows(2, _maximum),
    "max4": Rows(4, _maximum),
}
"""copy: a row of im2col. axpy: alpha x + y. max2, max4: a pooling window, a row each."""


def body(kernel: str, copies: int) -> tuple[Instruction, ...]:
    """One iteration: `copies` vectors of every row; rows start at p0, p1, …, results at q."""
    if kernel not in KERNELS:
        raise ScheduleError(unknown_name("row kernel", kernel, list(KERNELS)))
    what, code = KERNELS[kernel], list[Instruction]()
    for n in range(copies):
        x = [f"x{i}_{n}" for i in range(what.inputs)]
        code += [Instruction("vlds", r, (f"p{i}",), VECTOR_BYTES * n) for i, r in enumerate(x)]
        code += what.compute(x, f"m_{n}")
        code.append(Instruction("vsts", "", (x[0], "q"), VECTOR_BYTES * n))
    pointers = [*(f"p{i}" for i in range(what.inputs)), "q"]
    code += [Instruction("addl", p, (p,), VECTOR_BYTES * copies) for p in pointers]
    return (*code, Instruction("subl", "k", ("k",), 1), Instruction("bgt", "", ("k",)))


@lru_cache(maxsize=64)
def best(kernel: str, machine: Pipeline) -> tuple[int, Modulo]:
    """(copies, loop) with the fewest cycles a vector that the registers allow."""
    found: tuple[int, Modulo] | None = None
    for copies in COPIES:
        try:
            allocate(body(kernel, copies), machine)
        except ScheduleError:
            break
        loop = modulo(body(kernel, copies), machine)
        if found is None or per_vector(copies, loop) < per_vector(*found):
            found = copies, loop
    assert found is not None, "one copy of every kernel fits the registers"
    return found


def per_vector(copies: int, loop: Modulo) -> Fraction:
    """Cycles of a settled loop for one vector of the result."""
    return Fraction(loop.interval, copies)


def rows(kernel: str, vectors: int, machine: Pipeline) -> Code:
    """Code for rows of `vectors` vectors: the best loop, then what is left, one by one.

    Registers keep their names, for callers to set pointers.
    """
    copies, loop = best(kernel, machine)
    turns, left = divmod(vectors, copies)
    code: Code = ()
    if turns >= loop.stages:
        fill, kernel_loop, drain = loop.blocks(turns)
        code = (_set("k", kernel_loop.times), *fill, kernel_loop, *drain)
    else:
        left = vectors
    if left:
        code = (*code, _set("k", left), Loop(body(kernel, 1), left))
    return code


def _set(reg: str, value: int) -> Instruction:
    return Instruction("addl", reg, (ZERO,), value)
