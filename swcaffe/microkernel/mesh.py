"""Four CPEs that stand for all: one on both sending lines, one on either, one on neither.

In a step of the product all CPEs of column t do the same, all of row t, and all others, so one of
each kind, joined by four queues, takes the time that the whole mesh takes. A put stalls while send
and receive buffer are full, a get while its message is on its way. What a load broadcasts is taken
to leave when it is loaded: no source says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from swcaffe.errors import DeadlockError
from swcaffe.machine.pipeline import Pipeline
from swcaffe.microkernel.dependence import BUSES
from swcaffe.microkernel.gemm import Source
from swcaffe.microkernel.isa import Code, Instruction, trace
from swcaffe.microkernel.pipeline import Core

__all__ = ["Channel", "Node", "Role", "run", "step_cycles"]

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

    @property
    def full(self) -> bool:
        """Whether a put has to wait."""
        return len(self.arrivals) >= self.capacity


class Node(Core):
    """A core whose gets and puts wait for channels."""

    def __init__(
        self,
        machine: Pipeline,
        name: str,
        inputs: dict[str, Channel],
        outputs: dict[str, Sequence[Channel]],
    ) -> None:
        """Channels by bus, "row" and "col"; what is put goes to all outputs of its bus."""
        super().__init__(machine)
        self.name = name
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
        elif direction == "out" and any(channel.full for channel in self.outputs[bus]):
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
            for channel in self.outputs[bus]:
                channel.arrivals.append(self.now + load + self.travel)


def run(nodes: Sequence[Node], codes: Sequence[Code]) -> list[int]:
    """Cycle after the last issue of each node, all having started together.

    DeadlockError, naming what each node waits for, if none can go on.
    """
    running = {n: nodes[n].run(trace(code)) for n, code in enumerate(codes)}
    idle, waits = 0, [""] * len(nodes)
    while running:
        moved = False
        for n, cycles in list(running.items()):
            cycle = next(cycles, None)
            if cycle is None:
                del running[n]
            else:
                moved |= cycle.issued != (None, None)
                waits[n] = cycle.waits
        idle = 0 if moved or not running else idle + 1
        if idle > PATIENCE:
            stuck = "; ".join(f"{nodes[n].name} waits for {waits[n]}" for n in running)
            raise DeadlockError(
                f"no CPE can go on: {stuck}", fix="let every get have its put, in the same order"
            )
    return [node.now for node in nodes]


def step_cycles(codes: Mapping[Role, Code], machine: Pipeline) -> dict[Role, int]:
    """Cycles of each role in one step; DeadlockError as `run`."""
    both: Role = ("send", "send")
    row: Role = ("send", "receive")
    col: Role = ("receive", "send")
    none: Role = ("receive", "receive")
    capacity = 2 * machine.bus.depth
    rows = {src: Channel(capacity) for src in (both, row)}
    cols = {src: Channel(capacity) for src in (both, col)}
    wires: dict[Role, tuple[dict[str, Channel], dict[str, Sequence[Channel]]]] = {
        both: ({}, {"row": [rows[both]], "col": [cols[both]]}),
        row: ({"col": cols[both]}, {"row": [rows[row]]}),
        col: ({"row": rows[both]}, {"col": [cols[col]]}),
        none: ({"row": rows[row], "col": cols[col]}, {}),
    }
    nodes = [Node(machine, "/".join(role), *wires[role]) for role in wires]
    return dict(zip(wires, run(nodes, [codes[role] for role in wires]), strict=True))
