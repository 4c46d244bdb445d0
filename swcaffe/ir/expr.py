"""Index expressions. Affine ones are canonical by construction, so equal values compare equal.

Three kinds suffice: Affine for addresses, Mod to alternate the slots of a double buffer, and Clamp
for how much of a tile that is not full lies in one CPE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "COL",
    "ROW",
    "ZERO",
    "Affine",
    "Clamp",
    "Extent",
    "Mod",
    "Slot",
    "affine",
    "largest",
    "mod",
    "var",
]


@dataclass(frozen=True, slots=True)
class Affine:
    """const + sum of coefficient * variable; terms sorted by name, none of them zero."""

    const: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: Affine | int) -> Affine:
        """The sum, like terms gathered."""
        other = affine(other)
        total = dict(self.terms)
        for name, factor in other.terms:
            total[name] = total.get(name, 0) + factor
        terms = tuple((name, total[name]) for name in sorted(total) if total[name])
        return Affine(self.const + other.const, terms)

    def __sub__(self, other: Affine | int) -> Affine:
        """The difference."""
        return self + affine(other) * -1

    def __mul__(self, factor: int) -> Affine:
        """The product with an integer."""
        if factor == 0:
            return Affine()
        return Affine(self.const * factor, tuple((n, c * factor) for n, c in self.terms))

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Its value where every variable has one."""
        return self.const + sum(c * values[n] for n, c in self.terms)

    def bounds(self, extents: Mapping[str, int]) -> tuple[int, int]:
        """Smallest and largest value for variables in 0 .. extent - 1: exact, as it is affine."""
        low = high = self.const
        for name, factor in self.terms:
            reach = factor * (extents[name] - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    def __str__(self) -> str:
        """Canonical text: `2*i + j - 3`."""
        parts: list[str] = []
        for name, factor in self.terms:
            sign = "-" if factor < 0 else "+"
            body = name if abs(factor) == 1 else f"{abs(factor)}*{name}"
            parts.append(f"{sign} {body}" if parts else f"{'-' if factor < 0 else ''}{body}")
        if self.const or not parts:
            sign = "-" if self.const < 0 else "+"
            parts.append(f"{sign} {abs(self.const)}" if parts else str(self.const))
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Mod:
    """value mod modulus, never negative."""

    value: Affine
    modulus: int

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Its value where every variable has one."""
        return self.value.evaluate(values) % self.modulus

    def __str__(self) -> str:
        """Text: `(i + 1) % 2`."""
        return f"({self.value}) % {self.modulus}"


@dataclass(frozen=True, slots=True)
class Clamp:
    """value, but at least 0 and at most `high`."""

    value: Affine
    high: int

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Its value where every variable has one."""
        return max(0, min(self.value.evaluate(values), self.high))

    def __str__(self) -> str:
        """Text: `clamp(50 - 8*ROW, 0, 8)`."""
        return f"clamp({self.value}, 0, {self.high})"


ZERO = Affine()
"""The constant 0."""

Slot: TypeAlias = Affine | Mod
Extent: TypeAlias = int | Clamp

ROW = Affine(0, (("ROW", 1),))
"""Row of the CPE in the mesh; meaningful after expansion."""
COL = Affine(0, (("COL", 1),))
"""Column of the CPE in the mesh."""


def affine(value: Affine | int) -> Affine:
    """An integer as an expression."""
    return Affine(value) if isinstance(value, int) else value


def var(name: str) -> Affine:
    """A variable as an expression."""
    return Affine(0, ((name, 1),))


def mod(value: Affine, modulus: int) -> Slot:
    """value mod modulus, folded where it is known."""
    return Mod(value, modulus) if value.terms else Affine(value.const % modulus)


def largest(extent: Extent) -> int:
    """The extent on a CPE whose part of the tile is full."""
    return extent if isinstance(extent, int) else extent.high
