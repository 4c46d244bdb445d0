"""Map: vector code on every element of some tiles; ChannelSum: what is left of one axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from swcaffe.arrays import Array, Shape
from swcaffe.ir.buffer import Along, Region
from swcaffe.ir.intrinsic import Intrinsic, Work
from swcaffe.ir.vector import VectorCode
from swcaffe.machine.spec import Machine

__all__ = ["ChannelSum", "Map"]

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Map(Intrinsic):
    """results = code(arguments), element by element. Arguments: the results, then the arguments.

    spans[i]  axes of the results along which argument i lies; along the others it is repeated. A
              number alone, an element of a vector that every CPE has, lies along none.
    Results have equal shapes and are dealt alike, and arguments as they are along common axes.
    """

    name: ClassVar[str] = "map"
    c_name: ClassVar[str] = "sw_map"
    code: VectorCode
    spans: tuple[Axes, ...]

    def tile(self, *args: Array) -> None:
        """The code on whole arrays."""
        targets, sources = args[: self.results], args[self.results :]
        shape = targets[0].shape
        views = []
        for source, span in zip(sources, self.spans, strict=True):
            shown = tuple(n if axis in span else 1 for axis, n in enumerate(shape))
            views.append(source.reshape(shown))
        for target, value in zip(targets, self.code.evaluate(views), strict=True):
            target[...] = value

    @property
    def results(self) -> int:
        """How many tiles are written."""
        return len(self.code.results)

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The arguments of the code."""
        return args[self.results :]

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The results."""
        return args[: self.results]

    def refuse(self, args: tuple[Region, ...], machine: Machine) -> str | None:
        """Shapes and partitions that do not agree."""
        target = args[0]
        dealt = target.buffer.partition
        spans = (*(tuple(range(len(dealt))),) * self.results, *self.spans)
        for region, span in zip(args, spans, strict=True):
            if not span:
                whole = all(along is Along.NONE for along in region.buffer.partition)
                if math.prod(region.sizes) != 1 or not whole:
                    return f"{region} is not one number that every CPE has"
                continue
            if region.sizes != tuple(target.sizes[axis] for axis in span):
                return f"{region} does not lie along axes {span} of {target}"
            if region.buffer.partition != tuple(dealt[axis] for axis in span):
                return f"{region.buffer.name} is not dealt as {target.buffer.name} is"
        return None

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """Vectors times the busier pipeline: P0 computes, P1 loads arguments and stores results.

        Unrolled copies hide latencies, so that only issue slots count; what is repeated along the
        last axis, or the same for all elements, stays in a register.
        """
        shape = sizes[0]
        last = len(shape) - 1
        while last > 0 and shape[last] == 1:
            last -= 1
        vectors = math.prod(shape[:last]) * -(-math.prod(shape[last:]) // machine.kernel.lanes)
        loads = sum(last in span for span in self.spans)
        slots = self.code.slots, (loads + self.results) * machine.kernel.vector_load_cycles
        busier = "P0" if slots[0] > slots[1] else "P1"
        return Work(cycles=vectors * max(slots), pipeline="P0" if busier == "P0" else "P1")


@dataclass(frozen=True, slots=True)
class ChannelSum(Intrinsic):
    """target[c] += sum of source over all axes but `axis`. Arguments: target, source."""

    name: ClassVar[str] = "channel_sum"
    c_name: ClassVar[str] = "sw_channel_sum"
    axis: int

    def tile(self, *args: Array) -> None:
        """A sum over the other axes."""
        target, source = args
        others = tuple(axis for axis in range(source.ndim) if axis != self.axis)
        target[...] += source.sum(axis=others)

    def reads(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """Both."""
        return args

    def writes(self, args: tuple[Region, ...]) -> tuple[Region, ...]:
        """The target."""
        return args[:1]

    def refuse(self, args: tuple[Region, ...], machine: Machine) -> str | None:
        """Every CPE sums alone: only the axis that stays may be dealt."""
        target, source = (region.buffer.partition for region in args)
        others = {along for axis, along in enumerate(source) if axis != self.axis}
        if others - {Along.NONE}:
            return "axes that are summed are dealt over the mesh"
        if target != (source[self.axis],):
            return f"{args[0].buffer.name} is not dealt as axis {self.axis} of the source"
        if args[0].sizes != (args[1].sizes[self.axis],):
            return f"{args[0]} has not the length of axis {self.axis} of {args[1]}"
        return None

    def work(self, sizes: tuple[Shape, ...], machine: Machine) -> Work:
        """One load and one addition a vector, in different pipelines; lanes are summed at the end.

        Vectors lie along the last axis; where that is the axis that stays, no lane is summed.
        """
        shape, lanes = sizes[1], machine.kernel.lanes
        vectors = math.prod(shape[:-1]) * -(-shape[-1] // lanes)
        ends = 0 if self.axis == len(shape) - 1 or shape[-1] == 1 else shape[self.axis] * lanes
        return Work(cycles=max(vectors + ends, 1))
