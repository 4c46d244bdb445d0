"""A machine small enough for tests to run every program on every CPE: nothing here is measured."""

from __future__ import annotations

from dataclasses import replace

from swcaffe.machine.spec import MACHINES, Ldm, Mesh
from swcaffe.machine.sw26010 import SW26010

__all__ = ["TOY"]

TOY = replace(
    SW26010,
    name="toy",
    core_groups=2,
    mesh=Mesh(rows=2, cols=2, clock_hz=1e9),
    ldm=Ldm(capacity_bytes=2048, reserved_bytes=0, alignment_bytes=32),
)
MACHINES.register("toy")(TOY)
