"""Four CPEs that stand for all: one on both sending lines, one on either, one on neither.

In a step of the product all CPEs of column t do the same, all of row t, and all others, so one of
each kind, joined by four queues, takes the time that the whole mesh takes. A put stalls while send
and receive buffer are full, a get while its message is on its way. What a load broadcasts is taken
to leave when it is loaded: no source says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from swcaffe.errors import DeadlockError
from swcaffe.machine.pipeline import Pipeline
from swcaffe.microkernel.dependence import BUSES
from swcaffe.microkernel.gemm import Source
from swcaffe.microkernel.isa import Code, Instruction, trace
from swcaffe.microkernel.pipeline import Core

__all__ = ["Channel", "Node", "Role", "step_cycles"]

Role = tuple[Source, Source]
"""Where the operand on the row bus comes from, and that on the column bus: "send" or "receive"."""
PATIENCE = 100
"""Cycles without an issue anywhere that mean a deadlock: more than all latencies together."""


class Channel:
    """Messages between one sender and one receiver."""

    def __init__(self, capacity: int) -> None:
        """`capacity` messages of the send and the receive buffer together."""
        self.capacity = capacity
        self.arrivals: deque[int] = deque()


class Node(Core):
    """A core whose gets and puts wait for channels."""

    def __init__(
        self, machine: Pipeline, role: Role, inputs: dict[str, Channel], outputs: dict[str, Channel]
    ) -> None:
        """Channels by bus, "row" and "col"."""
        super().__init__(machine)
        self.role = role
        self.inputs = inputs
        self.outputs = outputs
        self.travel = machine.bus.latency_cycles

    def waits(self, instruction: Instruction) -> str:
        """Registers first, then the buses."""
        return super().waits(instruction) or self._bus_waits(instruction)

    def _bus_waits(self, instruction: Instruction) -> str:
        bus, _, direction = BUSES.get(instruction.op, "").partition(" ")
        if direction == "in":
            arrivals = self.inputs[bus].arrivals
            if not arrivals or arrivals[0] > self.now:
                return f"message from the {bus} bus"
        elif direction == "out" and len(self.outputs[bus].arrivals) >= self.outputs[bus].capacity:
            return f"room on the {bus} bus"
        return ""

    def issue(self, instruction: Instruction) -> None:
        """A message leaves when what it carries is loaded."""
        super().issue(instruction)
        bus, _, direction = BUSES.get(instruction.op, "").partition(" ")
        if direction == "in":
            self.inputs[bus].arrivals.popleft()
        elif direction == "out":
            group = self.groups[instruction.op]
            load = group.latency_cycles if group.name == "load" else 0
            self.outputs[bus].arrivals.append(self.now + load + self.travel)


def step_cycles(codes: Mapping[Role, Code], machine: Pipeline) -> dict[Role, int]:
    """Cycle in which each role issued its last instruction, all having started together.

    DeadlockError, naming what each CPE waits for, if none can go on.
    """
    both: Role = ("send", "send")
    row: Role = ("send", "receive")
    col: Role = ("receive", "send")
    none: Role = ("receive", "receive")
    capacity = 2 * machine.bus.depth
    rows = {src: Channel(capacity) for src in (both, row)}
    cols = {src: Channel(capacity) for src in (both, col)}
    nodes = [
        Node(machine, both, {}, {"row": rows[both], "col": cols[both]}),
        Node(machine, row, {"col": cols[both]}, {"row": rows[row]}),
        Node(machine, col, {"row": rows[both]}, {"col": cols[col]}),
        Node(machine, none, {"row": rows[row], "col": cols[col]}, {}),
    ]
    running = {node.role: (node, node.run(trace(codes[node.role]))) for node in nodes}
    done: dict[Role, int] = {}
    idle, waits = 0, dict[Role, str]()
    while running:
        moved = False
        for role, (node, run) in list(running.items()):
            cycle = next(run, None)
            if cycle is None:
                done[role] = node.now
                del running[role]
            else:
                moved |= cycle.issued != (None, None)
                waits[role] = cycle.waits
        idle = 0 if moved or not running else idle + 1
        if idle > PATIENCE:
            stuck = "; ".join(f"{'/'.join(role)} waits for {waits[role]}" for role in running)
            raise DeadlockError(f"no CPE can go on: {stuck}")
    return done
