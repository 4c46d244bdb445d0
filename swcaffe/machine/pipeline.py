"""The two in-order pipelines of one CPE, as data: groups of instructions, where they go, how long.

[table 3.2]  J. Fang, doctoral thesis, Tsinghua University, 2019, table 3.2
[3.1.4]      the same, section 3.1.4
[TACO]       Zhao et al., ACM TACO 2018
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

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

    registers           one file, for addresses and vectors alike
    reserved_registers  the one that reads as zero, and the stack pointer
    width               instructions looked at in a cycle, and pipelines
    bus_latency_cycles  from the issue of a put to the first get that finds its message
    bus_depth           messages in a send buffer, and in a receive buffer
    """

    registers: int
    reserved_registers: int
    width: int
    bus_latency_cycles: int
    bus_depth: int
    groups: tuple[Group, ...]

    @property
    def free_registers(self) -> int:
        """What a kernel may use."""
        return self.registers - self.reserved_registers

    def with_load_latency(self, cycles: int) -> Pipeline:
        """The same pipelines with another latency of loads from the LDM: 3 and 4 are published."""
        groups = tuple(
            replace(group, latency_cycles=cycles) if group.name == "load" else group
            for group in self.groups
        )
        return replace(self, groups=groups)


SW26010_PIPELINE = Pipeline(
    registers=32,  # (published) [TACO]
    reserved_registers=2,  # (published) [TACO]
    width=2,  # (published) [3.1.4]
    bus_latency_cycles=11,  # (measured) Xu et al. 2017, as quoted in [3.1.4]
    bus_depth=4,  # (published) [TACO] two 1024-bit send and two receive buffers, one a direction
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
