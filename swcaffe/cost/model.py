"""CostModel: seconds of a program on one core group.

Counts are exact; only rates are a model. Time is told by two clocks, the CPEs' and the DMA
engine's: a copy occupies the engine, a kernel the CPEs, and a Wait joins the two. Double buffering
therefore overlaps exactly as far as the program's Waits allow. Loops are followed for their first
iterations only, until their pace has settled.

On one core group, all iterations of a parallel loop run one after the other. On several they are
dealt in contiguous runs as the executors deal them, and the group that has most decides; a group's
copies get their share of the chip's memory bandwidth, and each parallel loop is a launch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from swcaffe.cost.count import count_copy
from swcaffe.cost.rates import copy_seconds, group_of, work_seconds
from swcaffe.errors import ProgramError
from swcaffe.ir.expand import expand
from swcaffe.ir.intrinsic import Intrinsic
from swcaffe.ir.stmt import (
    Alloc,
    Apply,
    Copy,
    For,
    If,
    Program,
    Recv,
    Reply,
    Send,
    Seq,
    Stmt,
    Wait,
)
from swcaffe.ir.visitor import Visitor
from swcaffe.machine.spec import Machine

__all__ = ["CostModel", "Price"]

SLOTS = 2
"""Loops repeat after this many iterations: buffers are double at most."""
SETTLING = 2
"""Turns of SLOTS iterations after which an innermost loop runs at its own pace."""


@dataclass(frozen=True, slots=True)
class Price:
    """Predicted time of a program, and what each resource is busy for, before overlap.

    seconds    of the core group that is busy longest, and resources the same
    resources  "P0", "P1" (the CPEs' pipelines), "DMA", "register bus", "launch"
    """

    seconds: float
    dma_bytes: int
    resources: dict[str, float]

    @property
    def bound(self) -> str:
        """The resource that is busy longest."""
        return max(self.resources, key=lambda name: self.resources[name])


class CostModel:
    """Prices programs for one machine."""

    def __init__(self, machine: Machine) -> None:
        """All figures come from `machine` and from `constants`."""
        self.machine = machine

    def price(self, program: Program, core_groups: int = 1) -> Price:
        """Seconds and resources of one run on so many core groups."""
        program = program if program.level == "cpe" else expand(program)
        clock = _Clock(group_of(self.machine, core_groups), core_groups)
        clock.visit(program.body)
        launch = self.machine.launch_s * (_launches(program.body) if core_groups > 1 else 1)
        resources = {**clock.busy, "launch": launch}
        return Price(launch + clock.now, clock.dma_bytes, resources)


@dataclass(frozen=True, slots=True)
class _Cost:
    """One execution of a statement, averaged over its loops."""

    latency: float = 0.0
    transfer: float = 0.0
    busy: dict[str, float] = field(default_factory=dict)


class _Clock(Visitor[None]):
    """Two clocks, and how long each resource is busy."""

    def __init__(self, machine: Machine, core_groups: int = 1) -> None:
        self.machine, self.core_groups = machine, core_groups
        self.now = 0.0
        self.dma_free = 0.0
        self.arrivals: dict[tuple[str, int], float] = {}
        self.busy = {"P0": 0.0, "P1": 0.0, "DMA": 0.0, "register bus": 0.0}
        self.dma_bytes = 0
        self.loops: tuple[tuple[str, int], ...] = ()
        self.values: dict[str, int] = {}
        self._costs: dict[int, tuple[Stmt, _Cost]] = {}

    def seq(self, stmt: Seq) -> None:
        for part in stmt.body:
            self.visit(part)

    def for_(self, stmt: For) -> None:
        """The first turns of SLOTS iterations, then whole turns at the pace of the last of them."""
        outer, self.loops = self.loops, (*self.loops, (stmt.var, stmt.extent))
        turns = 1 if _has_loops(stmt.body) else SETTLING
        extent = -(-stmt.extent // self.core_groups) if stmt.parallel else stmt.extent
        followed = min(extent, SLOTS * turns + extent % SLOTS)
        now, busy = self.now, dict(self.busy)
        for value in range(followed):
            if value == followed - SLOTS:
                now, busy = self.now, dict(self.busy)
            self.values[stmt.var] = value
            self.seq(stmt.body)
        left = (extent - followed) // SLOTS
        shift = left * (self.now - now)
        self.now += shift
        self.dma_free += shift
        self.arrivals = {word: at + shift for word, at in self.arrivals.items()}
        for name, seconds in self.busy.items():
            self.busy[name] = seconds + left * (seconds - busy[name])
        self.loops = outer

    def alloc(self, stmt: Alloc) -> None:
        """Takes no time."""

    def copy(self, stmt: Copy) -> None:
        cost = self._cost(stmt)
        self.dma_free = max(self.now, self.dma_free) + cost.transfer
        self.arrivals[self._word(stmt.reply)] = self.dma_free + cost.latency
        self.busy["DMA"] += cost.transfer

    def wait(self, stmt: Wait) -> None:
        self.now = max(self.now, self.arrivals[self._word(stmt.reply)])

    def _word(self, reply: Reply) -> tuple[str, int]:
        return reply.name, reply.slot.evaluate(self.values)

    def apply(self, stmt: Apply) -> None:
        cost = self._cost(stmt)
        self.now += cost.transfer
        for name, seconds in cost.busy.items():
            self.busy[name] += seconds

    def if_(self, stmt: If) -> None:
        raise ProgramError("messages of single CPEs have no closed price")

    def send(self, stmt: Send) -> None:
        raise ProgramError("messages of single CPEs have no closed price")

    def recv(self, stmt: Recv) -> None:
        raise ProgramError("messages of single CPEs have no closed price")

    def _cost(self, stmt: Copy | Apply) -> _Cost:
        found = self._costs.get(id(stmt))
        if found is None:
            cost = self._copy_cost(stmt) if isinstance(stmt, Copy) else self._apply_cost(stmt)
            found = self._costs[id(stmt)] = stmt, cost
        return found[1]

    def _copy_cost(self, stmt: Copy) -> _Cost:
        times = math.prod(extent for _, extent in self.loops)
        result = count_copy(stmt, self.machine, self.loops)
        self.dma_bytes += 4 * result.elements
        return _Cost(*copy_seconds(self.machine, result, times))

    def _apply_cost(self, stmt: Apply) -> _Cost:
        work = stmt.intrinsic.work(Intrinsic.sizes(stmt.args), self.machine)
        seconds, mesh = work_seconds(self.machine, work), self.machine.mesh
        longest = max(work.row_messages / mesh.rows, work.col_messages / mesh.cols)
        busy = {work.pipeline: seconds, "register bus": longest / mesh.clock_hz}
        return _Cost(transfer=seconds, busy=busy)


def _launches(body: Seq) -> int:
    """How often the core groups start together: once, or for each parallel loop."""
    return max(1, sum(isinstance(part, For) and part.parallel for part in body.body))


def _has_loops(stmt: Seq) -> bool:
    """Whether a loop body holds a loop."""
    return any(
        isinstance(part, For) or (isinstance(part, Seq) and _has_loops(part)) for part in stmt.body
    )
