"""A time line from what a run did: which resource of which core group was busy with what, when.

Unlike the closed model it follows every iteration, and takes the amounts that the mesh executor
counted as bytes and messages moved. Rates are the same: so the two tell apart errors of counting
and of extrapolation from those of the rates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from swcaffe.cost.count import CopyCount
from swcaffe.cost.rates import copy_seconds, group_of, work_seconds
from swcaffe.ir.trace import CopyEvent, Event, Join, KernelEvent, WaitEvent
from swcaffe.machine.spec import Machine

__all__ = ["Interval", "Timeline", "timeline"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A resource is busy from `start_s` to `end_s`.

    resource  "DMA", "P0", "P1", "row bus", "column bus"; "wait" where the CPEs idle
    """

    core_group: int
    resource: str
    what: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """All intervals of a run, by their start, and when it was over. Launch is not part of it."""

    intervals: tuple[Interval, ...]
    seconds: float

    def busy(self, resource: str, core_group: int = 0) -> float:
        """Seconds that a resource of a core group was busy."""
        return sum(
            part.end_s - part.start_s
            for part in self.intervals
            if part.resource == resource and part.core_group == core_group
        )


@dataclass(slots=True)
class _Group:
    """A core group's clocks: its CPEs', its DMA engine's, and when copies arrive."""

    now: float = 0.0
    dma_free: float = 0.0
    arrivals: dict[tuple[str, int], float] = field(default_factory=dict)


def timeline(events: Iterable[Event], machine: Machine, core_groups: int = 1) -> Timeline:
    """The time line of a run on so many core groups, as `MeshExecutor` traced it."""
    line = _Line(group_of(machine, core_groups), core_groups)
    for event in events:
        line.add(event)
    line.join()
    parts = sorted(line.intervals, key=lambda part: (part.start_s, part.core_group))
    return Timeline(tuple(parts), line.groups[0].now)


class _Line:
    """Places one event after another."""

    def __init__(self, machine: Machine, core_groups: int) -> None:
        self.machine = machine
        self.groups = [_Group() for _ in range(core_groups)]
        self.intervals: list[Interval] = []

    def add(self, event: Event) -> None:
        """Book an event at the earliest time that its resources allow."""
        if isinstance(event, Join):
            self.join()
        elif isinstance(event, CopyEvent):
            self._copy(event, self.groups[event.core_group])
        elif isinstance(event, WaitEvent):
            self._wait(event, self.groups[event.core_group])
        else:
            self._kernel(event, self.groups[event.core_group])

    def join(self) -> None:
        """All groups go on together."""
        latest = max(group.now for group in self.groups)
        for group in self.groups:
            group.now = latest

    def _book(self, group: int, resource: str, what: str, start: float, seconds: float) -> None:
        if seconds > 0:
            self.intervals.append(Interval(group, resource, what, start, start + seconds))

    def _copy(self, event: CopyEvent, group: _Group) -> None:
        counted = CopyCount(
            event.elements,
            event.transactions,
            event.descriptors,
            event.most_transactions,
            event.most_descriptors,
        )
        latency, transfer = copy_seconds(self.machine, counted, 1)
        start = max(group.now, group.dma_free)
        group.dma_free = start + transfer
        arrival = group.dma_free + latency
        group.arrivals[event.word] = max(arrival, group.arrivals.get(event.word, 0.0))
        self._book(event.core_group, "DMA", event.statement, start, transfer)

    def _wait(self, event: WaitEvent, group: _Group) -> None:
        arrival = group.arrivals.pop(event.word, 0.0)
        self._book(event.core_group, "wait", event.statement, group.now, arrival - group.now)
        group.now = max(group.now, arrival)

    def _kernel(self, event: KernelEvent, group: _Group) -> None:
        """The busier pipeline for its whole time; buses for a cycle a message, from the start."""
        work = event.intrinsic.work(event.sizes, self.machine)
        seconds, mesh = work_seconds(self.machine, work), self.machine.mesh
        where, what = event.core_group, event.statement
        self._book(where, work.pipeline, what, group.now, seconds)
        for bus, messages, lanes in (
            ("row bus", work.row_messages, mesh.rows),
            ("column bus", work.col_messages, mesh.cols),
        ):
            self._book(where, bus, what, group.now, messages / lanes / mesh.clock_hz)
        group.now += seconds
