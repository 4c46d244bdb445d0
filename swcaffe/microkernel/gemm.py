"""The register-tiled matrix kernel: 16 x 4 accumulators, one step of k at a time, in three orders.

The accumulators are 4 vectors of one dimension ("vector operand", a0 to a3) times 4 numbers of the
other ("scalar operand", b0 to b3, each in all lanes). A step of k fetches the 8 operands and does
16 multiply-adds [Fang 2019, 4.2]. Operands are fetched from the own LDM, from it with a broadcast
along the bus, or from the bus.

naive      as one writes it: fetch, multiply, count, branch
swdnn      the published reordering: the next step's fetches among the multiply-adds, by hand
pipelined  the order that our scheduler finds

Registers: pa, pb operands' addresses; la, lb bytes from one k to the next, or from one of the four
numbers to the next; t, k scratch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from swcaffe.errors import ScheduleError
from swcaffe.machine.pipeline import Pipeline
from swcaffe.microkernel.isa import ZERO, Code, Instruction, Loop
from swcaffe.microkernel.order import Modulo, modulo

__all__ = [
    "ACCUMULATORS",
    "SCALARS",
    "VECTORS",
    "Form",
    "Source",
    "naive",
    "pipelined",
    "pipelined_step",
    "swdnn",
]

Source = Literal["local", "send", "receive"]
VECTORS = tuple(f"a{i}" for i in range(4))
SCALARS = tuple(f"b{j}" for j in range(4))
ACCUMULATORS = tuple(f"c{j}{i}" for j in range(4) for i in range(4))
"""c{j}{i}: scalar j, vector i."""
_WAVES = sorted(((i, j) for i in range(4) for j in range(4)), key=lambda p: (p[0] + p[1], p[0]))


@dataclass(frozen=True, slots=True)
class Form:
    """Where a kernel's operands come from, and how they lie in the LDM.

    vector, scalar  source of the two operands: four roles of "send" and "receive"
    vectorise       "m": A is the vector operand and goes along rows, B along columns; "n": B is
    contiguous      the four scalars lie side by side; else each scalar's k does
    single          floats in the LDM, sent by loads and puts, as there is no load-and-broadcast
    """

    vector: Source = "local"
    scalar: Source = "local"
    vectorise: Literal["m", "n"] = "m"
    contiguous: bool = False
    single: bool = False

    def buses(self) -> tuple[str, str]:
        """Letters of the buses of the vector and of the scalar operand: r rows, c columns."""
        return ("r", "c") if self.vectorise == "m" else ("c", "r")


def _fetch(form: Form, index: int, scalar: bool, base: str, offset: int) -> list[Instruction]:
    """Instructions that bring operand number `index` into its register; the put of a float last."""
    source, bus = (form.scalar if scalar else form.vector), form.buses()[scalar]
    reg = (SCALARS if scalar else VECTORS)[index]
    if source == "receive":
        return [Instruction(f"get{bus}", reg, ())]
    if form.single:
        load = Instruction("ldse" if scalar else "vlds", reg, (base,), offset)
        return [load] + ([Instruction(f"put{bus}", "", (reg,))] if source == "send" else [])
    own, sent = ("ldde", f"ldde{bus}") if scalar else ("vldd", f"vld{bus}")
    return [Instruction(own if source == "local" else sent, reg, (base,), offset)]


def _vectors(form: Form) -> list[Instruction]:
    """Fetch a0 to a3, and step to the next k."""
    code = [i for n in range(4) for i in _fetch(form, n, False, "pa", 32 * n)]
    return code if form.vector == "receive" else [*code, Instruction("addl", "pa", ("pa", "la"))]


def _scalars(form: Form) -> list[Instruction]:
    """Fetch b0 to b3, and step to the next k."""
    if form.scalar == "receive" or form.contiguous:
        code = [i for n in range(4) for i in _fetch(form, n, True, "pb", 8 * n)]
        return (
            code if form.scalar == "receive" else [*code, Instruction("addl", "pb", ("pb", "lb"))]
        )
    code = _fetch(form, 0, True, "pb", 0)
    for n in range(1, 4):
        code.append(Instruction("addl", "t", ("pb" if n == 1 else "t", "lb")))
        code += _fetch(form, n, True, "t", 0)
    return [*code, Instruction("addl", "pb", ("pb",), 8)]


def _multiply(i: int, j: int) -> Instruction:
    acc = f"c{j}{i}"
    return Instruction("vmad", acc, (VECTORS[i], SCALARS[j], acc))


def _set(reg: str, value: int) -> Instruction:
    return Instruction("addl", reg, (ZERO,), value)


def _count(up: bool) -> list[Instruction]:
    """Count and branch: up to register n, which takes a compare, or down to 0."""
    if up:
        return [
            Instruction("addl", "k", ("k",), 1),
            Instruction("cmple", "t", ("n", "k")),
            Instruction("beq", "", ("t",)),
        ]
    return [Instruction("subl", "k", ("k",), 1), Instruction("bgt", "", ("k",))]


def naive(form: Form, steps: int) -> Code:
    """`steps` steps of k, each in the order in which one writes it down."""
    products = [_multiply(i, j) for i in range(4) for j in range(4)]
    body = (*_vectors(form), *_scalars(form), *products, *_count(up=True))
    return (_set("k", 0), _set("n", steps), Loop(body, steps))


def swdnn(form: Form, steps: int) -> Code:
    """The order of swDNN's figure 6: while one scalar's products run, the next one is fetched.

    b0 and a0 to a3 are fetched ahead, before the loop and in its last five slots; the branch
    stands alone behind the last product. ScheduleError unless the scalars are contiguous or
    received, and for fewer than two steps.
    """
    if steps < 2 or not (form.contiguous or form.scalar == "receive"):
        raise ScheduleError("swDNN's order needs two steps of k, and contiguous scalars")
    vectors = [_fetch(form, i, False, "pa", 32 * i) for i in range(4)]
    scalars = [_fetch(form, j, True, "pb", 8 * j) for j in range(4)]
    ahead = [scalars[0], *vectors]
    slots: dict[int, Instruction] = {n: scalars[n + 1][0] for n in range(3)}
    tail = _weave(slots)
    count, compare, branch = _count(up=True)
    slots |= {5: count, 8: compare}
    if form.scalar != "receive":
        slots[6] = Instruction("addl", "pb", ("pb", "lb"))
    if form.vector != "receive":
        slots[7] = Instruction("addl", "pa", ("pa", "la"))
    slots |= {11 + n: fetch[0] for n, fetch in enumerate(ahead)}
    later = [i for fetch in (*scalars[1:], *ahead) for i in fetch[1:]]
    start = [fetch[0] for fetch in ahead] + [i for fetch in ahead for i in fetch[1:]]
    puts = [i for fetch in scalars[1:] for i in fetch[1:]]
    loop = Loop((*_weave(slots), *later, branch), steps - 1)
    return (start[0], _set("k", 1), start[1], _set("n", steps), *start[2:], loop, *tail, *puts)


def _weave(slots: dict[int, Instruction]) -> list[Instruction]:
    """16 products, scalar by scalar, each followed by what its slot holds."""
    code: list[Instruction] = []
    for n in range(16):
        code.append(_multiply(n % 4, n // 4))
        if n in slots:
            code.append(slots[n])
    return code


@lru_cache(maxsize=256)
def pipelined_step(form: Form, machine: Pipeline) -> Modulo:
    """One step of k, software-pipelined: 16 cycles in every role and layout of double precision."""
    products = [_multiply(i, j) for i, j in _WAVES]
    body = (*_vectors(form), *_scalars(form), *products, *_count(up=False))
    return modulo(body, machine)


def pipelined(form: Form, steps: int, machine: Pipeline) -> Code:
    """`steps` steps of k, software-pipelined; ScheduleError for fewer than it overlaps."""
    step = pipelined_step(form, machine)
    fill, kernel, drain = step.blocks(steps)
    return (_set("k", kernel.times), *fill, kernel, *drain)
