"""Vector code as C: one loop for each axis of the results, and one line a step."""

from __future__ import annotations

import math

import numpy as np

from swcaffe.arrays import Shape
from swcaffe.codegen.expressions import extent, pointer
from swcaffe.errors import ProgramError
from swcaffe.ir.buffer import Region, strides
from swcaffe.ir.intrinsics.map import Map
from swcaffe.ir.vector import Step, VectorCode

__all__ = ["OPERATION_TEXT", "map_loops"]

OPERATION_TEXT = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "max": "sw_max({}, {})",
    "min": "sw_min({}, {})",
    "where_positive": "{} > 0 ? {} : {}",
    "where_less": "{} < {} ? {} : {}",
    "sqrt": "sqrtf({})",
    "expm1": "expm1f({})",
    "tanh": "tanhf({})",
    "power": "powf({}, {})",
}
"""Operation -> C, with its operands in order."""


def map_loops(op: Map, args: tuple[Region, ...]) -> list[str]:
    """Loops over the results; their variables are e0, e1, …"""
    shape = args[0].shape
    everywhere = tuple(range(len(shape)))
    spans = ((everywhere,) * op.results) + op.spans
    places = [_element(region, span) for region, span in zip(args, spans, strict=True)]
    axes = [axis for axis in everywhere if shape[axis] != 1]
    lines = [f"for (long e{a} = 0; e{a} < {extent(shape[a])}; e{a}++)" for a in axes]
    body = _body(op.code, places[: op.results], places[op.results :])
    nested = ["    " * depth + line for depth, line in enumerate(lines)]
    inner = "    " * max(len(lines) - 1, 0)
    head, opened = nested[:-1], f"{nested[-1]} {{" if nested else "{"
    return [*head, opened, *(f"{inner}    {line}" for line in body), f"{inner}}}"]


def _element(region: Region, span: Shape) -> str:
    """The element of a region that the loops stand at; it lies along the axes of `span`."""
    steps = strides(region.buffer.shape)
    terms = [
        f"e{axis}" if step == 1 else f"{step} * e{axis}"
        for axis, step, size in zip(span, steps, region.shape, strict=False)
        if size != 1
    ]
    return f"({pointer(region)})[{' + '.join(terms) or 0}]"


def _body(code: VectorCode, results: list[str], arguments: list[str]) -> list[str]:
    """Load, compute, store; steps that no result needs are left out."""
    first_step = code.inputs + len(code.constants)
    needed = set(code.results)
    for number in reversed(range(len(code.steps))):
        if first_step + number in needed:
            needed |= set(code.steps[number].operands)
    names = [f"x{i}" for i in range(code.inputs)]
    names += [_constant(value) for value in code.constants]
    names += [f"s{i}" for i in range(len(code.steps))]
    lines = [f"const float x{i} = {a};" for i, a in enumerate(arguments) if i in needed]
    for number, step in enumerate(code.steps):
        if first_step + number in needed:
            lines.append(f"const float s{number} = {_step(step, names)};")
    stores = zip(results, code.results, strict=True)
    return [*lines, *(f"{place} = {names[value]};" for place, value in stores)]


def _step(step: Step, names: list[str]) -> str:
    text = OPERATION_TEXT.get(step.op)
    if text is None:
        known = ", ".join(OPERATION_TEXT)
        raise ProgramError(f"operation {step.op} has no C text", fix=f"known: {known}")
    return text.format(*(names[operand] for operand in step.operands))


def _constant(value: float) -> str:
    """A float literal that reads back exactly."""
    single = float(np.float32(value))
    if math.isnan(single):
        return "NAN"
    if math.isinf(single):
        return "INFINITY" if single > 0 else "(-INFINITY)"
    return f"{single!r}f" if single >= 0 else f"({single!r}f)"
