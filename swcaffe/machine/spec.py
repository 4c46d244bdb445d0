"""What a machine with a mesh of processing elements is, as data: sizes, clocks and curves.

Nothing here behaves. Units stand in the names; the files with values name the source of each.
"""

from __future__ import annotations

from dataclasses import dataclass

from swcaffe.errors import EngineError
from swcaffe.registry import Registry

__all__ = ["MACHINES", "Dma", "Kernel", "Ldm", "Machine", "Mesh", "Mpe", "RegisterBus"]


@dataclass(frozen=True, slots=True)
class Mesh:
    """The array of CPEs of one core group."""

    rows: int
    cols: int
    clock_hz: float

    @property
    def cpes(self) -> int:
        """Number of CPEs."""
        return self.rows * self.cols


@dataclass(frozen=True, slots=True)
class Ldm:
    """Local data memory of one CPE.

    reserved_bytes   kept free for the stack and the run-time system
    alignment_bytes  a vector register: every buffer starts at a multiple of it
    """

    capacity_bytes: int
    reserved_bytes: int
    alignment_bytes: int

    @property
    def usable_bytes(self) -> int:
        """What a program may allocate on each CPE."""
        return self.capacity_bytes - self.reserved_bytes


@dataclass(frozen=True, slots=True)
class Dma:
    """The engine between main memory and the LDMs of one core group.

    peak_bytes_per_s   saturated rate, shared evenly by the CPEs
    start_cycles       from issue to the first byte
    transaction_bytes  the memory moves whole aligned units of this size
    """

    peak_bytes_per_s: float
    start_cycles: int
    transaction_bytes: int


@dataclass(frozen=True, slots=True)
class RegisterBus:
    """Row and column buses between registers.

    message_bytes  one vector register
    depth          messages a receive queue holds
    """

    message_bytes: int
    depth: int
    latency_cycles: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """The register-tiled matrix kernel of one CPE.

    tile_m, tile_n          rows and columns of the accumulators in registers
    cycles_per_k            issue cycles of one step of k: tile_m * tile_n / lanes multiply-adds
    tile_cycles             loading and storing the accumulators, and filling the pipeline
    lanes                   numbers in a vector register
    vector_load_cycles      one LDM vector access in the second pipeline
    """

    tile_m: int
    tile_n: int
    cycles_per_k: int
    tile_cycles: int
    lanes: int
    vector_load_cycles: int


@dataclass(frozen=True, slots=True)
class Mpe:
    """The management core, which runs what has no schedule."""

    flops_per_s: float
    copy_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Machine:
    """One core group, how many of them a chip has, and the rate of all its memory together."""

    name: str
    core_groups: int
    mesh: Mesh
    ldm: Ldm
    dma: Dma
    register_bus: RegisterBus
    kernel: Kernel
    mpe: Mpe
    launch_s: float
    memory_bytes_per_s: float

    @property
    def peak_flops_per_s(self) -> float:
        """Multiply-adds of all CPEs of one core group in every cycle, two operations each."""
        return 2.0 * self.kernel.lanes * self.mesh.cpes * self.mesh.clock_hz


MACHINES: Registry[Machine] = Registry("machine", EngineError)
"""Machine name -> facts."""
