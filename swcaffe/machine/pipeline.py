"""The two in-order pipelines of one CPE, as data: groups of instructions, where they go, how long.

[table 3.2]  J. Fang, doctoral thesis, Tsinghua University, 2019, table 3.2
[3.1.4]      the same, section 3.1.4
[TACO]       Zhao et al., ACM TACO 2018
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from swcaffe.machine.spec import RegisterBus
from swcaffe.machine.sw26010 import SW26010

__all__ = ["SW26010_PIPELINE", "Group", "Pipeline"]


@dataclass(frozen=True, slots=True)
class Group:
    """Instructions that are issued and finish alike.

    pipelines       those that can take them: 0 computes, 1 loads, stores, communicates, branches
    latency_cycles  from issue to the first issue that may use, or write again, the result
    """

    name: str
    pipelines: tuple[int, ...]
    latency_cycles: int
    kind: Literal["published", "measured", "derived", "assumed"]
    source: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Issue width, registers and groups of one CPE.

    registers  one file, for addresses and vectors alike
    width      instructions looked at in a cycle, and pipelines
    bus        between this core's registers and others'
    """

    registers: int
    width: int
    bus: RegisterBus
    groups: tuple[Group, ...]

    def with_load_latency(self, cycles: int) -> Pipeline:
        """The same pipelines with another latency of loads from the LDM: 3 and 4 are published."""
        groups = tuple(
            replace(group, latency_cycles=cycles) if group.name == "load" else group
            for group in self.groups
        )
        return replace(self, groups=groups)


SW26010_PIPELINE = Pipeline(
    registers=32,  # (published) [TACO]
    width=2,  # (published) [3.1.4]
    bus=SW26010.register_bus,
    groups=(
        Group("integer", (0, 1), 1, "published", "[table 3.2] add, sub, scaled add, compare"),
        Group("shift", (0, 1), 1, "published", "[table 3.2]"),
        Group("integer multiply", (0,), 5, "published", "[table 3.2]"),
        Group("float", (0,), 7, "published", "[table 3.2] add, sub, mul, multiply-add"),
        Group("compare", (0,), 7, "assumed", "float compares, as additions: not in [table 3.2]"),
        Group("select", (0,), 1, "assumed", "moves a register, as insert: not in [table 3.2]"),
        Group("permute", (0,), 1, "published", "[table 3.2] insert, extract, shuffle"),
        Group("load", (1,), 4, "published", "[table 3.2] 3-4 to LDM; 4 reproduces 5 + 17 + 16"),
        Group("store", (1,), 1, "published", "[table 3.2] issue; nothing waits for a store"),
        Group("put", (1,), 1, "published", "[table 3.2] issue"),
        Group("get", (1,), 1, "published", "[table 3.2] issue; from a queue that holds a message"),
        Group("branch", (1,), 1, "published", "[3.1.4] control transfer is pipeline 1's"),
    ),
)
"""The CPE of the SW26010."""
