"""Constants of the model that are not properties of one machine: value, unit, kind, source.

Nothing here is fitted by us. Machines carry their own figures in `machine/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["DESCRIPTOR_ISSUE", "MPE_BYTES", "SINGLE_CPE_DMA", "Constant"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A figure and where it comes from."""

    value: float
    unit: str
    kind: Literal["published", "measured", "derived", "assumed"]
    source: str


DESCRIPTOR_ISSUE = Constant(
    25,
    "cycles",
    "assumed",
    "a later request of a copy costs its issue only, as three may be outstanding; 25 cycles is "
    "what a contest report of 2018 gives for DMA, too short for a latency (200 in Fang 2019)",
)
SINGLE_CPE_DMA = Constant(
    10.0e9, "bytes/s", "measured", "swCaffe (CLUSTER 2018) fig. 2: one CPE alone, saturated"
)
MPE_BYTES = Constant(
    1.0,
    "passes",
    "assumed",
    "an operator on the MPE reads its inputs and writes its outputs once, at copy bandwidth",
)
