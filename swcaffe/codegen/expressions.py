"""Index expressions, extents, addresses and calls as C text."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from swcaffe.arrays import Shape
from swcaffe.errors import ProgramError
from swcaffe.ir.buffer import Region, strides
from swcaffe.ir.expr import Affine, Extent, Slot

__all__ = ["COLUMNS", "C_TYPES", "axes", "call", "extent", "identifier", "pointer", "slot"]

COLUMNS = 96
"""Longest line, before indentation."""

C_TYPES = {"f32": "float", "f64": "double", "i32": "int"}
"""Element type -> C type."""

_SOLID = "\N{NO-BREAK SPACE}"
_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while asm typeof ROW COL args argument ldm scratch error
"""
_TAKEN = frozenset(_WORDS.split())
"""Words of C, and names that every generated function has."""


def identifier(name: str) -> str:
    """A name of a program, which must be one in C. Raises ProgramError."""
    if name in _TAKEN or not (name.isidentifier() and name.isascii()):
        raise ProgramError(f"{name!r} cannot be a name in C", fix="rename it in the program")
    return name


def slot(value: Slot) -> str:
    """A slot number; negative values of a modulus wrap as in the program."""
    if isinstance(value, Affine):
        return str(value)
    negative = value.value.const < 0 or any(factor < 0 for _, factor in value.value.terms)
    if negative:
        return f"sw_mod({value.value}, {value.modulus})"
    return f"({value.value}) % {value.modulus}"


def extent(value: Extent) -> str:
    """A size, which may differ between CPEs."""
    return str(value) if isinstance(value, int) else f"sw_clamp({value.value}, {value.high})"


def pointer(region: Region) -> str:
    """Address of a region's first element."""
    buffer = region.buffer
    offset = Affine()
    for start, stride in zip(region.start, strides(buffer.shape), strict=True):
        offset = offset + start * stride
    size = buffer.slot_bytes((1, 1)) // buffer.item_bytes
    parts = [identifier(buffer.name)]
    if isinstance(region.slot, Affine):
        offset = offset + region.slot * size
    else:
        parts.append(f"{slot(region.slot)} * {size}")
    if offset != Affine():
        text = str(offset)
        parts.append(text)
    return " + ".join(parts).replace("+ -", "- ")


def axes(sizes: Iterable[Extent], *steps: Shape) -> str:
    """Axes as `sw_axis`: sizes, and one or two numbers for each."""
    columns = [*steps, (0,) * len(steps[0])][:2]
    rows = zip(sizes, *columns, strict=True)
    items = (f"{{{extent(size)}, {first}, {second}}}" for size, first, second in rows)
    return f"(sw_axis[]){{{', '.join(items)}}}"


def call(function: str, *arguments: object) -> list[str]:
    """A call as a statement, on as many lines as it needs; broken between arguments and axes."""
    solid = (str(argument).replace(" ", _SOLID) for argument in arguments)
    text = f"{function}({', '.join(solid)});".replace(f"}},{_SOLID}{{", "}, {")
    lines = wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)
    lines = [line.replace(_SOLID, " ") for line in lines]
    return [lines[0], *(f"    {line}" for line in lines[1:])]
