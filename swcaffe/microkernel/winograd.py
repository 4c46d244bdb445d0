"""Winograd's F(2 x 2, 3 x 3) transforms of a vector of channels: tiles to and from products.

Input  V = Bt d B, 16 loads and 16 stores; output Y = At m A, 16 loads and 4 stores. Rows and
columns are transformed one after the other, which takes 32 and 24 additions; `direct` computes
every number of V from its four of d, which takes the 48 that Fang 2019 counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.machine.pipeline import Pipeline
from swcaffe.microkernel.isa import Code, Instruction, Loop
from swcaffe.microkernel.order import allocate, block

__all__ = ["AT", "BT", "input_transform", "loop", "output_transform"]

Matrix = tuple[tuple[int, ...], ...]
BT: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
AT: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))
VECTOR_BYTES = 32
SPARE = 10
"""Registers beside the 16 of a tile: results that are not stored yet."""


class _Registers:
    """Names that are free; a tile's 16 and some more."""

    def __init__(self) -> None:
        self.free = [f"d{n}" for n in range(16 + SPARE)][::-1]

    def take(self) -> str:
        return self.free.pop()

    def give(self, names: Sequence[str]) -> None:
        self.free[:0] = reversed(names)


def _sum(target: str, terms: Sequence[tuple[int, str]]) -> list[Instruction]:
    """target = a sum of registers with signs, at least one of them positive and two in all."""
    (_, first), *rest = sorted(terms, key=lambda term: -term[0])
    code = []
    for sign, reg in rest:
        code.append(Instruction("vaddd" if sign > 0 else "vsubd", target, (first, reg)))
        first = target
    return code


def _line(
    matrix: Matrix, x: Sequence[str], registers: _Registers, code: list[Instruction]
) -> list[str]:
    """Transform four registers; they are free afterwards."""
    results = []
    for row in matrix:
        target = registers.take()
        code += _sum(target, [(sign, reg) for sign, reg in zip(row, x, strict=True) if sign])
        results.append(target)
    registers.give(x)
    return results


def _load(registers: _Registers, code: list[Instruction]) -> list[list[str]]:
    tile = [[registers.take() for _ in range(4)] for _ in range(4)]
    for n, reg in enumerate(reg for row in tile for reg in row):
        code.append(Instruction("vlds", reg, ("p",), VECTOR_BYTES * n))
    return tile


def _store(values: Sequence[Sequence[str]], code: list[Instruction]) -> None:
    for n, reg in enumerate(reg for row in values for reg in row):
        code.append(Instruction("vsts", "", (reg, "q"), VECTOR_BYTES * n))


def _separable(matrix: Matrix) -> tuple[Instruction, ...]:
    """Columns, then rows, then stores."""
    registers, code = _Registers(), list[Instruction]()
    tile = _load(registers, code)
    columns = [_line(matrix, column, registers, code) for column in zip(*tile, strict=True)]
    rows = [_line(matrix, row, registers, code) for row in zip(*columns, strict=True)]
    _store(rows, code)
    return tuple(code)


def input_transform(direct: bool = False) -> tuple[Instruction, ...]:
    """V = Bt d B of the 16 vectors from p on, to q on; by columns and rows, or directly."""
    if not direct:
        return _separable(BT)
    registers, code = _Registers(), list[Instruction]()
    tile = _load(registers, code)
    for i, row in enumerate(BT):
        for j, column in enumerate(BT):
            terms = [
                (row[r] * column[c], tile[r][c])
                for r in range(4)
                for c in range(4)
                if row[r] * column[c]
            ]
            target = registers.take()
            code += _sum(target, terms)
            code.append(Instruction("vsts", "", (target, "q"), VECTOR_BYTES * (4 * i + j)))
            registers.give([target])
    return tuple(code)


def output_transform() -> tuple[Instruction, ...]:
    """Y = At m A of the 16 vectors from p on, to the 4 from q on."""
    return _separable(AT)


def loop(body: Sequence[Instruction], tiles: int, machine: Pipeline) -> Code:
    """A transform of `tiles` tiles that follow each other, in the scheduler's order."""
    stores = sum(i.op == "vsts" for i in body)
    steps = (
        Instruction("addl", "p", ("p",), 16 * VECTOR_BYTES),
        Instruction("addl", "q", ("q",), stores * VECTOR_BYTES),
        Instruction("subl", "k", ("k",), 1),
        Instruction("bgt", "", ("k",)),
    )
    code = (Loop(block((*body, *steps), machine), tiles),)
    allocate(code, machine)
    return code
