"""Orders instructions for the two pipelines: blocks by list, loops by modulo scheduling.

A loop that is software-pipelined starts an iteration every `interval` cycles. The interval begins
with what the pipelines need at least and grows until a search finds times for all instructions. No
register is renamed: a kernel whose values live longer than an iteration is written unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swcaffe.errors import ScheduleError
from swcaffe.machine.pipeline import Pipeline
from swcaffe.microkernel.dependence import Edge, dependences
from swcaffe.microkernel.isa import STACK, ZERO, Code, Instruction, Loop
from swcaffe.microkernel.pipeline import Issue

__all__ = ["Modulo", "allocate", "block", "modulo"]

STAGES = 4
"""Iterations that may overlap."""
NODES = 200
"""Placements tried before a search is given up."""
WIDTH = 2
"""Instructions of a slot: one for each pipeline."""
_Slot = tuple[tuple[int, ...], ...]
"""Pipelines that each instruction of a slot can take."""


@dataclass(frozen=True, slots=True)
class Modulo:
    """A software-pipelined loop: instruction i of iteration j is issued at times[i] + j * interval.

    rank  order of the two instructions of a slot
    The last two instructions count and branch: they exist in the kernel only.
    """

    body: tuple[Instruction, ...]
    times: tuple[int, ...]
    interval: int
    rank: tuple[int, ...]

    @property
    def stages(self) -> int:
        """Iterations that overlap."""
        return max(self.times) // self.interval + 1

    def blocks(self, iterations: int) -> tuple[Code, Loop, Code]:
        """Filling, kernel, draining. The counter must start at `iterations - stages + 1`.

        ScheduleError if there are fewer iterations than stages.
        """
        kernels = iterations - self.stages + 1
        if kernels < 1:
            raise ScheduleError(
                f"a loop of {iterations} iterations is too short for {self.stages} stages",
                fix="run short loops in the order in which they are written",
            )
        fill = [i for b in range(self.stages - 1) for i in self._block(0, b, False)]
        drain = [i for b in range(1, self.stages) for i in self._block(b, self.stages - 1, False)]
        kernel = self._block(0, self.stages - 1, True)
        return tuple(fill), Loop(tuple(kernel), kernels), tuple(drain)

    def _block(self, first: int, last: int, control: bool) -> list[Instruction]:
        """Instructions of the stages first..last, by slot."""
        chosen = [
            i
            for i, time in enumerate(self.times)
            if first <= time // self.interval <= last and (control or i < len(self.body) - 2)
        ]
        chosen.sort(key=lambda i: (self.times[i] % self.interval, self.rank[i]))
        return [self.body[i] for i in chosen]


def block(body: Sequence[Instruction], machine: Pipeline) -> tuple[Instruction, ...]:
    """A basic block in the order of a greedy list schedule, longest path to the end first.

    A branch at its end stays there.
    """
    if body and body[-1].is_branch:
        return (*block(body[:-1], machine), body[-1])
    edges = dependences(body, machine, loop=False)
    heights = _heights(len(body), edges)
    groups = Issue.of(machine).groups
    earliest = [0] * len(body)
    waiting = [sum(edge.after == i for edge in edges) for i in range(len(body))]
    left, order, now = set(range(len(body))), list[int](), 0
    while left:
        free = {0, 1}
        for _ in range(machine.width):
            ready = [
                i
                for i in left
                if not waiting[i]
                and earliest[i] <= now
                and free & set(groups[body[i].op].pipelines)
            ]
            if not ready:
                break
            best = max(ready, key=lambda i: (heights[i], -i))
            free.discard(max(free & set(groups[body[best].op].pipelines)))
            left.discard(best)
            order.append(best)
            for edge in edges:
                if edge.before == best:
                    waiting[edge.after] -= 1
                    earliest[edge.after] = max(earliest[edge.after], now + edge.latency)
        now += 1
    return tuple(body[i] for i in order)


def modulo(body: Sequence[Instruction], machine: Pipeline, most: int = 256) -> Modulo:
    """Software-pipeline a loop whose last two instructions count down and branch.

    ScheduleError if no interval up to `most` cycles is found.
    """
    if len(body) < 2 or not body[-1].is_branch or body[-2].dst not in body[-1].srcs:
        raise ScheduleError(
            "a loop to be pipelined ends with its counter and its branch",
            fix="put subl, then bgt, at the end of the body",
        )
    edges = dependences(body, machine, loop=True)
    groups = Issue.of(machine).groups
    pipelines = [groups[i.op].pipelines for i in body]
    for interval in range(_fewest(pipelines, machine), most + 1):
        times = _search(edges, pipelines, interval)
        if times is not None:
            return Modulo(tuple(body), times, interval, _ranks(times, edges, interval))
    raise ScheduleError(
        f"no schedule of {len(body)} instructions in {most} cycles",
        fix="unroll less, or allow more cycles",
    )


def _fewest(pipelines: Sequence[tuple[int, ...]], machine: Pipeline) -> int:
    """Cycles that the pipelines need for as many instructions."""
    single = [pipelines.count((p,)) for p in range(machine.width)]
    return max(*single, -(-len(pipelines) // machine.width))


def _heights(count: int, edges: Sequence[Edge]) -> list[int]:
    """Longest path from each instruction of a block to its end; edges go forward."""
    heights = [0] * count
    for edge in sorted(edges, key=lambda e: -e.before):
        heights[edge.before] = max(heights[edge.before], heights[edge.after] + edge.latency)
    return heights


class _Search:
    """Depth-first search for times in [0, stages * interval) that keep all edges.

    The instruction with the fewest slots left comes next, its earliest slot first; windows follow
    from the edges and shrink as instructions are placed.
    """

    def __init__(
        self, edges: Sequence[Edge], pipelines: Sequence[tuple[int, ...]], interval: int
    ) -> None:
        self.edges = edges
        self.pipelines = pipelines
        self.interval = interval
        self.nodes = 0

    def run(self, stages: int, fixed: dict[int, int]) -> tuple[int, ...] | None:
        """Times, with those of `fixed` given; the branch ends the first interval."""
        last = len(self.pipelines) - 1
        low = [0] * (last + 1)
        high = [stages * self.interval - 1] * (last + 1)
        low[last] = high[last] = self.interval - 1
        for index, time in fixed.items():
            low[index] = high[index] = time
        if not self._narrow(low, high):
            return None
        used: list[_Slot] = [()] * self.interval
        for index, time in fixed.items():
            used[time % self.interval] += (self.pipelines[index],)
        self.nodes = NODES
        return self._place([i for i in range(last + 1) if i not in fixed], low, high, used)

    def _place(
        self, left: list[int], low: list[int], high: list[int], used: list[_Slot]
    ) -> tuple[int, ...] | None:
        if not left:
            return tuple(low)
        room = {
            i: [t for t in range(low[i], high[i] + 1) if self._fits(i, used[t % self.interval])]
            for i in left
        }
        index = min(left, key=lambda i: len(room[i]))
        rest = [i for i in left if i != index]
        for time in room[index]:
            self.nodes -= 1
            below, above = list(low), list(high)
            below[index] = above[index] = time
            if self.nodes > 0 and self._narrow(below, above):
                slot = time % self.interval
                now = [*used[:slot], (*used[slot], self.pipelines[index]), *used[slot + 1 :]]
                found = self._place(rest, below, above, now)
                if found is not None:
                    return found
        return None

    def _fits(self, index: int, slot: _Slot) -> bool:
        """Whether the pipelines can take it beside what its slot holds already."""
        needs = self.pipelines[index]
        return len(slot) < WIDTH and (len(needs) > 1 or needs not in slot)

    def _narrow(self, low: list[int], high: list[int]) -> bool:
        """Shrink windows until all edges can hold between their ends; False if one is empty."""
        changed = True
        while changed:
            changed = False
            for edge in self.edges:
                gap = edge.latency - edge.distance * self.interval
                if low[edge.before] + gap > low[edge.after]:
                    low[edge.after], changed = low[edge.before] + gap, True
                if high[edge.after] - gap < high[edge.before]:
                    high[edge.before], changed = high[edge.after] - gap, True
                if low[edge.after] > high[edge.after] or low[edge.before] > high[edge.before]:
                    return False
        return True


def _search(
    edges: Sequence[Edge], pipelines: Sequence[tuple[int, ...]], interval: int
) -> tuple[int, ...] | None:
    """Times of the schedule with the fewest stages, then the shortest, or None.

    If pipeline 0 alone takes as many instructions as there are cycles, they keep their order and
    follow each other, and only where they begin is tried.
    """
    search = _Search(edges, pipelines, interval)
    computing = [i for i, pipes in enumerate(pipelines) if pipes == (0,)]
    for stages in range(1, STAGES + 1):
        starts = range((stages - 1) * interval + 1) if len(computing) == interval else range(1)
        for start in starts:
            fixed = {i: start + at for at, i in enumerate(computing)} if len(starts) > 1 else {}
            times = search.run(stages, fixed)
            if times is not None:
                return times
    return None


def _ranks(times: tuple[int, ...], edges: Sequence[Edge], interval: int) -> tuple[int, ...]:
    """Order within a slot: who reads a register before who writes it, the branch last."""
    ranks = [0] * len(times)
    ranks[-1] = 2
    for edge in edges:
        apart = times[edge.after] + edge.distance * interval - times[edge.before]
        if apart == 0 and edge.latency == 0 and edge.before != edge.after:
            ranks[edge.after] = max(ranks[edge.after], 1)
    return tuple(ranks)


def allocate(code: Code, machine: Pipeline) -> Code:
    """Name registers "$0", "$1", … in the order they appear; those that are named so stay.

    ScheduleError if the kernel needs more registers than the machine leaves it.
    """
    names: dict[str, str] = {}
    _collect(code, names)
    fixed = {reg for reg in names if reg.startswith("$")}
    free = [f"${n}" for n in range(machine.registers) if f"${n}" not in fixed | {ZERO, STACK}]
    words = [reg for reg in names if reg not in fixed]
    if len(words) > len(free):
        raise ScheduleError(
            f"the kernel needs {len(words)} registers, {len(free)} are free",
            fix="use a smaller register tile, or unroll less",
        )
    return _rename(code, dict(zip(words, free, strict=False)))


def _collect(code: Code, names: dict[str, str]) -> None:
    for item in code:
        if isinstance(item, Loop):
            _collect(item.body, names)
        else:
            names.update(dict.fromkeys((item.dst, *item.srcs), ""))
    names.pop("", None)


def _rename(code: Code, names: dict[str, str]) -> Code:
    return tuple(
        replace(item, body=_rename(item.body, names))
        if isinstance(item, Loop)
        else item.renamed(names)
        for item in code
    )
