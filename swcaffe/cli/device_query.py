"""`swcaffe device_query`: the modelled machine, in the form of Caffe's list, and the host."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Sequence

import swcaffe.machine.sw26010
import swcaffe.machine.toy  # noqa: F401  both register themselves
from swcaffe.cli.flags import Flags
from swcaffe.machine.spec import MACHINES, Machine

__all__ = ["run"]

log = logging.getLogger(__name__)


def _properties(machine: Machine) -> list[tuple[str, str]]:
    mesh, ldm, dma, bus = machine.mesh, machine.ldm, machine.dma, machine.register_bus
    group = machine.peak_flops_per_s / 1e9
    return [
        ("Name:", machine.name),
        ("Core groups:", str(machine.core_groups)),
        ("CPEs per core group:", f"{mesh.cpes} ({mesh.rows} x {mesh.cols})"),
        ("Clock rate:", f"{mesh.clock_hz / 1e9:g} GHz"),
        ("Peak of a core group:", f"{group:.1f} GFLOPS"),
        ("Peak of the chip:", f"{machine.core_groups * group:.1f} GFLOPS"),
        ("LDM per CPE:", f"{ldm.capacity_bytes} B, {ldm.usable_bytes} B for tiles"),
        ("DMA peak of a core group:", f"{dma.peak_bytes_per_s / 1e9:g} GB/s"),
        ("DMA start-up:", f"{dma.start_cycles} cycles"),
        ("DMA transaction:", f"{dma.transaction_bytes} B"),
        ("Register message:", f"{bus.message_bytes} B, {bus.depth} deep queues"),
        ("Register bus latency:", f"{bus.latency_cycles} cycles"),
    ]


def run(argv: Sequence[str]) -> int:
    """Print; 0."""
    flags = Flags("device_query", "Describe the modelled machine and this host.")
    flags.add_argument(
        "--machine", choices=list(MACHINES), default="sw26010", help="which machine (sw26010)"
    )
    flags.add_argument("--gpu", default="all", metavar="IDS", help="Caffe's flag, only shown (all)")
    args = flags.parse(argv)
    machine = MACHINES.get(args.machine)
    log.info("Querying GPUs %s", args.gpu, extra={"origin": "caffe.cpp:138"})
    host = [("Host:", f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}")]
    for label, value in [("Device id:", "0"), *_properties(machine), *host]:
        log.info("%-32s%s", label, value, extra={"origin": "common.cpp:177"})
    return 0
