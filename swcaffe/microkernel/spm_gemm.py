"""The matrix product of one core group in its LDMs, in instructions: tiles, rows of tiles, steps.

C (m, n) += A (m, k) B (k, n), each cut into 8 x 8 blocks, block (i, j) in CPE (i, j). In step t
the CPEs of column t send their block of A along the rows and those of row t their block of B along
the columns [Fang 2019, 4.2]. A CPE goes through its block of C in register tiles of 16 x 4, inner
loop along the scalar operand. Every tile is four blocks of code, one after the other: load 16
vectors of C; fill, repeat and drain the loop over k; store 16 vectors of C and step to the next
tile. The kernel uses all free registers, so what tiles need otherwise lies on the stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from swcaffe.errors import ProgramError
from swcaffe.machine.pipeline import Pipeline
from swcaffe.microkernel.gemm import ACCUMULATORS, Form, pipelined
from swcaffe.microkernel.isa import STACK, Code, Instruction, Loop
from swcaffe.microkernel.mesh import Role, step_cycles
from swcaffe.microkernel.order import allocate, block

__all__ = [
    "FRAME",
    "ROLES",
    "TILE",
    "StepCost",
    "spm_gemm_cycles",
    "step",
    "step_cost",
    "step_simulated",
]

TILE = (16, 4)
"""Register tile: vector operand, scalar operand."""
ROLES: tuple[Role, ...] = (
    ("send", "send"),
    ("send", "receive"),
    ("receive", "send"),
    ("receive", "receive"),
)
"""(vector operand, scalar operand) of the CPE on both, on one, on none of the sending lines."""
_SLOTS = (
    "c a b ldc count row_c row_b rows tiles first_c first_a first_b all_rows la lb line row col"
)
FRAME = {name: 8 * n for n, name in enumerate(_SLOTS.split())}
"""Stack frame: bytes from the stack pointer.

c, a, b                    addresses of the tile of C and of the operands' parts for it
ldc, la, lb                strides in bytes: C's, and those that the kernel's form names
count, rows                tiles of this row, and rows, that are left
row_c, row_b               c and b at the start of a row
tiles, all_rows, first_*   what the others start from
line, row, col             step of the product; place of the CPE
"""


def _load(reg: str, slot: str) -> Instruction:
    return Instruction("ldl", reg, (STACK,), FRAME[slot])


def _store(reg: str, slot: str) -> Instruction:
    return Instruction("stl", "", (reg, STACK), FRAME[slot])


def _add(dst: str, src: str, other: str | int) -> Instruction:
    if isinstance(other, int):
        return Instruction("addl", dst, (src,), other)
    return Instruction("addl", dst, (src, other))


def _accumulators(store: bool) -> list[Instruction]:
    """Load or store 4 x 4 vectors of C, whose address is in t and stride in k."""
    code: list[Instruction] = []
    for n, acc in enumerate(ACCUMULATORS):
        if n and n % 4 == 0:
            code.append(_add("t", "t", "k"))
        offset = 32 * (n % 4)
        code.append(
            Instruction("vstd", "", (acc, "t"), offset)
            if store
            else Instruction("vldd", acc, ("t",), offset)
        )
    return code


def _begin_tile(form: Form) -> list[Instruction]:
    """C into registers, and the addresses of the operands that this CPE sends."""
    code = [_load("t", "c"), _load("k", "ldc"), *_accumulators(store=False)]
    if form.vector != "receive":
        code.append(_load("pa", "a"))
    if form.scalar != "receive":
        code.append(_load("pb", "b"))
    return code


def _end_tile(form: Form) -> list[Instruction]:
    """C out of registers; four scalars on; back if the row has more tiles."""
    code = [_load("t", "c"), _load("k", "ldc"), *_accumulators(store=True)]
    code += [_add("t", "t", "k"), _store("t", "c")]
    if form.scalar != "receive":
        code.append(_load("pb", "b"))
        if form.contiguous:
            code.append(_add("pb", "pb", 8 * TILE[1]))
        else:
            code += [Instruction("s4addl", "pb", ("lb", "pb"))]
        code.append(_store("pb", "b"))
    code += [_load("b0", "count"), Instruction("subl", "b0", ("b0",), 1), _store("b0", "count")]
    return [*code, Instruction("bgt", "", ("b0",))]


def _begin_row() -> list[Instruction]:
    """Back to the first scalar."""
    moves = (("tiles", "count"), ("row_c", "c"), ("row_b", "b"))
    registers = ("a0", "a1", "a2")
    return [_load(reg, src) for reg, (src, _) in zip(registers, moves, strict=True)] + [
        _store(reg, dst) for reg, (_, dst) in zip(registers, moves, strict=True)
    ]


def _end_row(form: Form) -> list[Instruction]:
    """16 numbers of the vector operand on; back if there are more."""
    code = [_load("a0", "row_c"), _add("a0", "a0", 8 * TILE[0]), _store("a0", "row_c")]
    if form.vector != "receive":
        code += [_load("a1", "a"), _add("a1", "a1", 8 * TILE[0]), _store("a1", "a")]
    code += [_load("a2", "rows"), Instruction("subl", "a2", ("a2",), 1), _store("a2", "rows")]
    return [*code, Instruction("bgt", "", ("a2",))]


def _begin_step() -> list[Instruction]:
    """Which role this CPE has, and back to the first tile."""
    code = [_load("a0", "line"), _load("a1", "row"), _load("a2", "col")]
    code += [Instruction("cmpeq", "a1", ("a0", "a1")), Instruction("cmpeq", "a2", ("a0", "a2"))]
    moves = (("all_rows", "rows"), ("first_c", "row_c"), ("first_a", "a"), ("first_b", "row_b"))
    for n, (src, dst) in enumerate(moves):
        code += [_load(f"c0{n}", src), _store(f"c0{n}", dst)]
    return [*code, _load("la", "la"), _load("lb", "lb"), _add("a0", "a0", 1), _store("a0", "line")]


def _dispatch(form: Form) -> list[Instruction]:
    """Two branches to one of the four copies of the kernel."""
    senders = [form.vector, form.scalar] if form.vectorise == "m" else [form.scalar, form.vector]
    return [
        Instruction("beq", "", (reg,), taken=source == "receive")
        for reg, source in zip(("a2", "a1"), senders, strict=True)
    ]


def step(form: Form, rows: int, tiles: int, k: int, machine: Pipeline) -> Code:
    """One CPE's code in one step of the product, in the role that `form` gives it.

    rows, tiles  register tiles along the vector and the scalar operand
    k            steps of k of one CPE's block
    """
    begin, end = block(_begin_tile(form), machine), block(_end_tile(form), machine)
    tile = Loop((*begin, *pipelined(form, k, machine), *end), tiles)
    row: Code = (*block(_begin_row(), machine), tile, *block(_end_row(form), machine))
    code: Code = (*block(_begin_step(), machine), *_dispatch(form), Loop(row, rows))
    return allocate(code, machine)


@dataclass(frozen=True, slots=True)
class StepCost:
    """Cycles of a step of the product as a closed form, its terms taken from simulations.

    step, row, tile  spent once in a step, in each row of tiles, in each tile
    k                of one step of k of a tile
    """

    step: int
    row: int
    tile: int
    k: int

    def cycles(self, rows: int, tiles: int, k: int) -> int:
        """All cycles of a step with `rows` rows of `tiles` tiles and `k` steps of k."""
        return self.step + rows * (self.row + tiles * (self.tile + k * self.k))


Vectorise = Literal["m", "n"]


def step_simulated(
    rows: int, tiles: int, k: int, machine: Pipeline, vectorise: Vectorise, contiguous: bool
) -> int:
    """Cycles of a step until the CPE on neither sending line is done, which sends in the next."""
    codes: dict[Role, Code] = {}
    for vector, scalar in ROLES:
        form = Form(vector, scalar, vectorise, contiguous)
        by_bus = (vector, scalar) if vectorise == "m" else (scalar, vector)
        codes[by_bus] = step(form, rows, tiles, k, machine)
    return step_cycles(codes, machine)["receive", "receive"]


SETTLED = 4
"""Steps of k from which on one more adds the same cycles."""


@lru_cache(maxsize=256)
def step_cost(
    machine: Pipeline, k: int, vectorise: Vectorise = "m", contiguous: bool = False
) -> StepCost:
    """The closed form around `k` steps: simulations that differ by a step, a tile, a row."""

    def cycles(rows: int, tiles: int, steps: int) -> int:
        return step_simulated(rows, tiles, steps, machine, vectorise, contiguous)

    if k > SETTLED:
        return step_cost(machine, SETTLED, vectorise, contiguous)
    one = cycles(1, 1, k)
    per_k = cycles(1, 1, k + 1) - one
    tile = cycles(1, 2, k) - one - k * per_k
    row = cycles(2, 1, k) - one - tile - k * per_k
    return StepCost(one - row - tile - k * per_k, row, tile, per_k)


def spm_gemm_cycles(
    m: int,
    n: int,
    k: int,
    machine: Pipeline,
    mesh: int = 8,
    vectorise: Vectorise = "m",
    contiguous: bool = False,
) -> int:
    """Cycles of C (m, n) += A (m, k) B (k, n) on `mesh` x `mesh` CPEs, operands in their LDMs.

    vectorise   dimension along which vectors lie: a multiple of 16 x mesh, the other of 4 x mesh
    contiguous  whether the other operand's four numbers lie side by side
    Raises ProgramError if tiles or k do not fit the mesh.
    """
    long, short = (m, n) if vectorise == "m" else (n, m)
    if long % (TILE[0] * mesh) or short % (TILE[1] * mesh) or k % mesh or k < 2 * mesh:
        raise ProgramError(
            f"spm_gemm of m, n, k = {m}, {n}, {k} vectorised along {vectorise} does not fit "
            f"tiles of {TILE[0]} x {TILE[1]} on a mesh of {mesh} x {mesh}",
            fix=f"pad to multiples of {TILE[0] * mesh}, {TILE[1] * mesh} and, for k, {mesh}",
        )
    cost = step_cost(machine, k // mesh, vectorise, contiguous)
    rows, tiles = long // (TILE[0] * mesh), short // (TILE[1] * mesh)
    return mesh * cost.cycles(rows, tiles, k // mesh)
