"""The column matrix of a convolution: written from image strips, and summed back into them.

One unit of work is a strip of image rows of some channels and images. Strips are cut so that the
strip and its windows fit the LDM; those with the same clipping at the image border share a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swcaffe.ir.buffer import Along, Buffer
from swcaffe.ir.builder import Builder, Span, box, round_up
from swcaffe.ir.expr import Affine, Slot
from swcaffe.ir.intrinsics.im2col import Col2im, Im2col
from swcaffe.ir.stmt import Reply
from swcaffe.machine.spec import Machine
from swcaffe.schedule.strips import Planes, Strip, runs, strips_for_images, strips_for_outputs

__all__ = ["Columns"]


@dataclass(frozen=True, slots=True)
class _Place:
    """First position and image row of a strip, and the channels taken at once."""

    at: Affine
    row: Affine
    channels: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Moves between images (n, groups, channels, rows, cols) and a column matrix in scratch."""

    machine: Machine
    planes: Planes

    def tiling(self, images: int, *, by_image_rows: bool) -> tuple[int, int] | None:
        """(channels, rows) of a strip that fits the LDM: many rows first, then many channels."""
        total = self.planes.size[0] if by_image_rows else self.planes.out[0]
        ways = self._ways()[0]
        for count in range(1, total + 1):
            rows = -(-total // count)
            if count > 1 and rows == -(-total // (count - 1)):
                continue
            for times in (4, 2, 1):
                channels = min(self.planes.channels, ways * times)
                if self._bytes(channels, images, rows, by_image_rows) <= self._budget():
                    return channels, rows
        return None

    def _budget(self) -> int:
        return self.machine.ldm.usable_bytes - 4 * self.machine.ldm.alignment_bytes

    def _dealt(self) -> tuple[Along, Along]:
        """How channels and images are dealt: images alone when there are few channels."""
        if self.planes.channels < self.machine.mesh.rows:
            return Along.NONE, Along.MESH
        return Along.ROW, Along.COL

    def _ways(self) -> tuple[int, int]:
        mesh = self.machine.mesh.rows, self.machine.mesh.cols
        channels, images = self._dealt()
        return channels.ways(mesh), images.ways(mesh)

    def _strips(self, rows: int, by_image_rows: bool) -> list[Strip]:
        return (strips_for_images if by_image_rows else strips_for_outputs)(self.planes, rows)

    def _bytes(self, channels: int, images: int, rows: int, by_image_rows: bool) -> int:
        """LDM bytes of the largest strip: what is fetched is there twice."""
        ways = self._ways()
        units = -(-channels // ways[0]) * -(-images // ways[1])
        strips = self._strips(rows, by_image_rows)
        src = max(strip.src[1] for strip in strips) * self.planes.size[1]
        out = max(strip.out[1] for strip in strips) * self.planes.out[1] * self.planes.taps
        return 4 * units * (src + 2 * out if by_image_rows else 2 * src + out)

    def _tiles(
        self, b: Builder, channels: int, images: int, strip: Strip, fetched: str
    ) -> tuple[Buffer, Buffer]:
        """LDM tiles of a strip and its windows, the fetched one with two slots."""
        ways, dealt = self._ways(), self._dealt()
        first, second = round_up(channels, ways[0]), round_up(images, ways[1])
        src_shape = (first, second, strip.src[1], self.planes.size[1])
        col_shape = (first * self.planes.taps, second, strip.out[1] * self.planes.out[1])
        slots = 1 if channels == self.planes.channels else 2
        src_slots, col_slots = (slots, 1) if fetched == "strip" else (1, slots)
        return (
            b.tile("strip", src_shape, (*dealt, Along.NONE, Along.NONE), src_slots),
            b.tile("columns", col_shape, (*dealt, Along.NONE), col_slots),
        )

    def _each(
        self, b: Builder, images: int, by_image_rows: bool, body: Callable[[Strip, _Place], None]
    ) -> None:
        """body(strip, where) for each kind of strip, in a loop over its positions."""
        tiling = self.tiling(images, by_image_rows=by_image_rows)
        assert tiling is not None, "the template refuses what does not fit"
        for strip, count, step in runs(self._strips(tiling[1], by_image_rows)):
            with b.loop("y", count) as y:
                at = (y * step[0] + strip.out[0]) * self.planes.out[1]
                body(strip, _Place(at, y * step[1] + strip.src[0], tiling[0]))

    def write(self, b: Builder, src: Buffer, images: Span, group: Affine, columns: Buffer) -> None:
        """im2col: columns (window, images, positions) of some images of src."""

        def strip_to_columns(strip: Strip, place: _Place) -> None:
            count, taps = images[1], self.planes.taps
            tile, matrix = self._tiles(b, place.channels, count, strip, "strip")
            positions = strip.out[1] * self.planes.out[1]

            def fetch(channel: Affine, channels: int, slot: Slot) -> None:
                mem = box(src, images, (group, 1), (channel, channels), (place.row, strip.src[1]))
                b.get(box(tile, channels, count, slot=slot), mem, Reply("src", slot), (2, 0, 3, 4))

            def compute(channel: Affine, channels: int, slot: Slot, first: bool) -> None:
                b.wait(Reply("src", slot))
                valid = box(matrix, channels * taps, count)
                strip_region = box(tile, channels, count, slot=slot)
                b.apply(Im2col(self.planes.windows(strip)), valid, strip_region)
                mem = box(columns, (channel * taps, channels * taps), count, (place.at, positions))
                b.put(valid, mem, Reply("columns"))
                b.wait(Reply("columns"))

            b.pipeline("c", self.planes.channels, place.channels, fetch, compute)

        self._each(b, images[1], False, strip_to_columns)

    def sum(self, b: Builder, columns: Buffer, dst: Buffer, images: Span, group: Affine) -> None:
        """col2im: each image element of dst is the sum of the columns that stand for it."""

        def columns_to_strip(strip: Strip, place: _Place) -> None:
            count, taps = images[1], self.planes.taps
            tile, matrix = self._tiles(b, place.channels, count, strip, "columns")
            positions = strip.out[1] * self.planes.out[1]

            def fetch(channel: Affine, channels: int, slot: Slot) -> None:
                mem = box(columns, (channel * taps, channels * taps), count, (place.at, positions))
                b.get(box(matrix, channels * taps, count, slot=slot), mem, Reply("columns", slot))

            def compute(channel: Affine, channels: int, slot: Slot, first: bool) -> None:
                b.wait(Reply("columns", slot))
                valid = box(tile, channels, count)
                source = box(matrix, channels * taps, count, slot=slot)
                b.apply(Col2im(self.planes.windows(strip)), valid, source)
                mem = box(dst, images, (group, 1), (channel, channels), (place.row, strip.src[1]))
                b.put(valid, mem, Reply("dst"), (2, 0, 3, 4))
                b.wait(Reply("dst"))

            b.pipeline("c", self.planes.channels, place.channels, fetch, compute)

        self._each(b, images[1], True, columns_to_strip)
