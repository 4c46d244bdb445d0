"""Joining and cutting rows: tiles pass through the LDMs from one place in memory to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from swcaffe.ir.buffer import Along, Buffer, Region
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.expr import Affine, Slot
from swcaffe.ir.stmt import MAX_PARAMS, Program, Reply
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.operators.layout import Concat, Slice
from swcaffe.schedule.space import Config, ConfigSpace, Knob
from swcaffe.schedule.template import TEMPLATES, Template

__all__ = ["JoinTemplate"]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Columns of one array that become columns of another."""

    source: str
    source_at: int
    target: str
    target_at: int
    width: int


def _pieces(op: Operator) -> Iterator[_Piece]:
    assert isinstance(op, Concat | Slice), f"{op} neither joins nor cuts"
    starts = [0, *accumulate(op.widths)]
    if isinstance(op, Concat):
        for i, width in enumerate(op.widths):
            yield _Piece(f"src{i}", 0, "dst", starts[i], width)
    else:
        for i in op.wanted:
            yield _Piece("src", starts[i], f"dst{i}", 0, op.widths[i])


class JoinTemplate(Template):
    """Concat and Slice. One row alone is dealt over the CPEs by its elements, rows are one each."""

    name: ClassVar[str] = "join"

    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """Something to move, between as many arrays as a program takes."""
        operands = (*op.inputs, *op.outputs)
        if any(operand.count == 0 for operand in operands):
            return "an empty piece"
        if len(operands) > MAX_PARAMS:
            return f"{len(operands)} operands, a program takes {MAX_PARAMS}"
        return None

    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """Elements of a block, of which two are in the LDM."""
        most = (machine.ldm.usable_bytes // 2 - machine.ldm.alignment_bytes) // 4
        return ConfigSpace((Knob("block", tuple(most // d // 8 * 8 for d in (1, 2, 4, 8, 16))),))

    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """Few large blocks, but enough of them that one is fetched while another is stored."""
        tile = config["block"] * machine.mesh.cpes
        count = max(operand.count for operand in op.outputs)
        steps = -(-count // tile)
        fill = 4 * min(tile, count) / machine.dma.peak_bytes_per_s * machine.mesh.clock_hz
        return steps * machine.dma.start_cycles + fill

    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """Piece by piece, shares of each for the core groups."""
        b = Builder(self.name, (machine.mesh.rows, machine.mesh.cols))
        flat = op.outputs[0].shape[0] == 1
        memory = {
            operand.name: b.param(operand.name, operand.shape[::-1] if flat else operand.shape)
            for operand in (*op.inputs, *op.outputs)
        }
        for piece in _pieces(op):
            total, width = (piece.width, 1) if flat else (op.outputs[0].shape[0], piece.width)
            cols = min(width, config["block"])
            rows = max(1, config["block"] // cols) * machine.mesh.cpes
            rows = min(rows, -(-total // machine.mesh.cpes) * machine.mesh.cpes)
            mover = _Mover(b, memory, piece, flat, rows, cols)
            share = max(1, total // machine.core_groups)
            b.tiles("g", total, share, mover.share, parallel=True)
        return b.build()


@dataclass(frozen=True, slots=True)
class _Mover:
    """Moves one piece; flat pieces have their place along rows, others along columns."""

    b: Builder
    memory: dict[str, Buffer]
    piece: _Piece
    flat: bool
    rows: int
    cols: int

    def share(self, start: Affine, count: int) -> None:
        """One core group's rows, in tiles of columns; rows are double-buffered."""
        b = self.b
        slots = 2 if count > self.rows else 1
        width = 1 if self.flat else self.piece.width
        with b.scope():
            tile = b.tile("t", (self.rows, self.cols), (Along.MESH, Along.NONE), slots)

            def columns(x: Affine, cols: int) -> None:
                def fetch(row: Affine, rows: int, slot: Slot) -> None:
                    piece = self.piece.source, self.piece.source_at
                    mem = self._box(*piece, (row + start, rows), (x, cols))
                    b.get(box(tile, rows, cols, slot=slot), mem, Reply("in", slot))

                def store(row: Affine, rows: int, slot: Slot, first: bool) -> None:
                    piece = self.piece.target, self.piece.target_at
                    mem = self._box(*piece, (row + start, rows), (x, cols))
                    b.wait(Reply("in", slot))
                    b.put(box(tile, rows, cols, slot=slot), mem, Reply("out"))
                    b.wait(Reply("out"))

                b.pipeline("r", count, self.rows, fetch, store)

            b.tiles("x", width, self.cols, columns)

    def _box(
        self, name: str, at: int, rows: tuple[Affine, int], cols: tuple[Affine, int]
    ) -> Region:
        """Part of an array, counted from where the piece starts in it."""
        if self.flat:
            return box(self.memory[name], (rows[0] + at, rows[1]), cols)
        return box(self.memory[name], rows, (cols[0] + at, cols[1]))


_JOIN = JoinTemplate()
for _op_class in (Concat, Slice):
    TEMPLATES.setdefault(_op_class, []).append(_JOIN)
