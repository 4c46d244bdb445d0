"""LDM tiles of convolutions whose column matrix exists there only: shapes, sizes, rough costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from swcaffe.arrays import Shape
from swcaffe.ir.builder import round_up
from swcaffe.machine.spec import Machine
from swcaffe.schedule.matmul import Images, split
from swcaffe.schedule.space import Config, Knob
from swcaffe.schedule.strips import Planes, strips_for_outputs

__all__ = ["Tiles", "WeightTiles", "knobs", "sizes_of"]


@dataclass(frozen=True, slots=True)
class Tiles:
    """Shapes of the LDM tiles of C = A @ windows: m rows, images, strips of `rows`, channels."""

    machine: Machine
    planes: Planes
    m: int
    images: int
    rows: int
    channels: int
    has_bias: bool = False

    @property
    def columns(self) -> tuple[int, int]:
        """(images, positions) of a strip, padded for the kernel."""
        mesh, kernel = self.machine.mesh, self.machine.kernel
        positions = self.rows * self.planes.out[1]
        images, padded = Images(0, (0, self.images)).shape(positions, mesh.cols, kernel.tile_n)
        return images, padded

    @property
    def a(self) -> Shape:
        """Weights: (m, window), or (m, channels, taps) where channels are a memory axis apart."""
        mesh = self.machine.mesh
        m = round_up(self.m, mesh.rows * self.machine.kernel.tile_m)
        if self.planes.reverse:
            return m, round_up(self.channels, mesh.cols), self.planes.taps
        return m, round_up(self.channels * self.planes.taps, mesh.cols)

    @property
    def b(self) -> Shape:
        """Windows: (channels * taps, images, positions)."""
        return (math.prod(self.a[1:]), *self.columns)

    @property
    def c(self) -> Shape:
        """Output: (m, images, positions)."""
        return (self.a[0], *self.columns)

    @property
    def strip(self) -> Shape:
        """Image rows: (channels, images, rows, cols) of the largest strip."""
        rows = max(strip.src[1] for strip in strips_for_outputs(self.planes, self.rows))
        return self.channels, self.columns[0], rows, self.planes.size[1]

    @property
    def slots(self) -> int:
        """Two where channels are walked in several tiles."""
        return 1 if self.channels == self.planes.channels else 2

    @property
    def ldm_bytes(self) -> int:
        """Bytes on each CPE; strips are there for each row of the mesh."""
        a, b, c, strip = (math.prod(shape) for shape in (self.a, self.b, self.c, self.strip))
        mesh = self.machine.mesh
        dealt = 4 * c + (4 * self.slots + 8) * a + 12 * b
        shared = 4 * self.slots * strip // mesh.cols + 4 * self.a[0] * self.has_bias // mesh.rows
        return dealt // mesh.cpes + shared + 8 * self.machine.ldm.alignment_bytes

    def sketch(self) -> float:
        """Rough cycles of one tile of C."""
        mesh, dma = self.machine.mesh, self.machine.dma
        a, b, c, strip = (math.prod(shape) for shape in (self.a, self.b, self.c, self.strip))
        per_element = 4 * mesh.clock_hz / dma.peak_bytes_per_s
        steps = -(-self.planes.channels // self.channels)
        sizes = (c / mesh.cpes, b / mesh.cpes, b / math.prod(self.columns) / mesh.rows)
        compute = _kernel_cycles(self.machine, sizes[0], sizes[2]) + 2.5 * sizes[1]
        fetch = per_element * (a + strip * mesh.rows) + dma.start_cycles
        store = per_element * c + dma.start_cycles
        return steps * max(compute, fetch) + min(compute, fetch) + store


@dataclass(frozen=True, slots=True)
class WeightTiles:
    """Shapes of the tiles of C (m, window) = A (m, images p) @ windows (window, images p).T."""

    machine: Machine
    planes: Planes
    m: int
    images: int
    rows: int
    channels: int

    @property
    def columns(self) -> tuple[int, int]:
        """(images, positions): the depth of the product, dealt by images."""
        return round_up(self.images, self.machine.mesh.cols), self.rows * self.planes.out[1]

    @property
    def a(self) -> Shape:
        """Output gradients."""
        rows = self.machine.mesh.rows * self.machine.kernel.tile_m
        return (round_up(self.m, rows), *self.columns)

    @property
    def b(self) -> Shape:
        """Windows."""
        cols = self.machine.mesh.cols * self.machine.kernel.tile_n
        return (round_up(self.channels * self.planes.taps, cols), *self.columns)

    @property
    def c(self) -> Shape:
        """Weight gradients."""
        return self.a[0], self.b[0]

    @property
    def strip(self) -> Shape:
        """Image rows of the largest strip."""
        rows = max(strip.src[1] for strip in strips_for_outputs(self.planes, self.rows))
        return self.channels, self.columns[0], rows, self.planes.size[1]

    @property
    def ldm_bytes(self) -> int:
        """Bytes on each CPE; strips are there for each column of the mesh."""
        a, b, c, strip = (math.prod(shape) for shape in (self.a, self.b, self.c, self.strip))
        mesh = self.machine.mesh
        slack = 8 * self.machine.ldm.alignment_bytes
        return (4 * c + 16 * a + 12 * b) // mesh.cpes + 8 * strip // mesh.rows + slack

    def sketch(self) -> float:
        """Rough cycles of one step of the depth."""
        mesh, dma = self.machine.mesh, self.machine.dma
        a, b, c, strip = (math.prod(shape) for shape in (self.a, self.b, self.c, self.strip))
        depth = math.prod(self.columns) / mesh.cols
        compute = _kernel_cycles(self.machine, c / mesh.cpes, depth) + 2.5 * b / mesh.cpes
        per_element = 4 * mesh.clock_hz / dma.peak_bytes_per_s
        return max(compute, per_element * (a + strip * mesh.cols) + dma.start_cycles)


def _kernel_cycles(machine: Machine, c: float, k: float) -> float:
    """Cycles of all steps of a product, from the block of C (elements) and of k (rows of B)."""
    kernel = machine.kernel
    tiles = machine.mesh.rows * c / (kernel.tile_m * kernel.tile_n)
    return tiles * (kernel.cycles_per_k * k + kernel.tile_cycles)


def sizes_of(config: Config) -> tuple[int, int, int, int]:
    """m, images, rows, channels of the tiles."""
    return config["tile_m"], config["images"], config["rows"], config["channels"]


def knobs(machine: Machine, planes: Planes, images: int, m: int) -> tuple[Knob, ...]:
    """Images, rows of a strip, channels of a step, rows of A."""
    unit, mesh = machine.mesh.rows * machine.kernel.tile_m, machine.mesh
    counts = {min(images, mesh.cols * factor) for factor in (1, 2)}
    rows = {-(-planes.out[0] // parts) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256)}
    channels = {split(planes.channels, limit) for limit in (1, 2, 4, 8, 16, 32, 64)}
    return (
        Knob("images", tuple(sorted(counts))),
        Knob("rows", tuple(sorted(rows))),
        Knob("channels", tuple(sorted(channels))),
        Knob("tile_m", tuple(sorted({split(m, unit * factor) for factor in (1, 2, 4, 8)}))),
    )
