"""Recurrent sequences: one job a step, whose tasks multiply with the state and finish their cells.

The weights are packed once for all steps. A task owns COLS cells in all streams: forward it
multiplies the carried state with the cells' rows of the weights and adds pre; backward it
multiplies the gradients of the step behind with the cells' columns, and leaves its own packed for
the step before. A task of its own between two jobs moves the table's word `step`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.engine.engine import Plan, Refusal
from swcaffe.engine.host.functions import tanh
from swcaffe.engine.host.native import carray, compiled, floats
from swcaffe.engine.host.plans import Job, Scratch, TaskPlan, Workspace, fields, split_evenly
from swcaffe.engine.host.team import Task, task
from swcaffe.engine.host.vectors import copy_vector
from swcaffe.kernels import COLS, ROWS, WIDTH, outer_tile, pack_cols
from swcaffe.operators.base import Operator
from swcaffe.operators.recurrent import (
    LstmBackward,
    LstmForward,
    LstmUnitBackward,
    LstmUnitForward,
    RnnBackward,
    RnnForward,
)

__all__ = ["Recurrence", "Units"]

LAYOUT = fields(
    "pre cont weights h0 c0 h c gates carried diff_h diff_pre diff_c diff_c0",
    "steps n d gate_count row_step step packed_bytes cells_at panels_at",
)
HALF, ONE = np.float32(0.5), np.float32(1)


@compiled
def _sigmoid(x: Any) -> Any:
    return HALF * tanh(HALF * x) + HALF


@compiled
def _gate(row: int, t: Any, gate: int, c0: int, cells: int) -> Any:
    """Some cells of one gate in a row of gates."""
    return floats(row + 4 * (gate * t.d + c0), cells)


@compiled
def _packed(t: Any, parity: int, r: int, depth: int) -> Any:
    """(address, pitch) of stream r in rows packed as (depth, rows of a block)."""
    first = r // t.row_step * t.row_step
    pitch = min(t.row_step, t.n - first)
    return t.shared + parity * t.packed_bytes + 4 * (first * depth + r - first), pitch


@task(LAYOUT)
def pack_rows_of_cells(table: Any, index: int, worker: int) -> None:
    """Pack the rows of COLS cells of a gate as columns, zeros behind the last."""
    t = carray(table, 1)[0]
    blocks = (t.d + COLS - 1) // COLS
    c0 = index % blocks * COLS
    source = floats(t.weights, t.gate_count * t.d * t.d)[(index // blocks * t.d + c0) * t.d :]
    panel = floats(t.shared + t.panels_at + 4 * index * t.d * COLS, t.d * COLS)
    pack_cols(source, t.d, min(COLS, t.d - c0), 1, t.d, panel)


@task(LAYOUT)
def carry(table: Any, index: int, worker: int) -> None:
    """Go one step on, behind the last to the first; carried = cont * the state before."""
    t = carray(table, 1)[0]
    step = t.step + 1 if t.step + 1 < t.steps else 0
    t.step = step
    cont = floats(t.cont, t.steps * t.n)[step * t.n :]
    before = t.h + 4 * (step - 1) * t.n * t.d if step > 0 else t.h0
    for r in range(t.n):
        source = floats(before + 4 * r * t.d, t.d)
        carried = floats(t.carried + 4 * (step * t.n + r) * t.d, t.d)
        at, pitch = _packed(t, 0, r, t.d)
        packed = floats(at, t.d * pitch)
        for x in range(t.d):
            carried[x] = cont[r] * source[x]
        for x in range(t.d):
            packed[x * pitch] = carried[x]


@compiled
def _add_state(t: Any, index: int, out: int, tile: int) -> None:
    """Set COLS cells of all gates at `out` to pre + carried @ weights.T."""
    c0, blocks = index * COLS, (t.d + COLS - 1) // COLS
    cells, row = min(COLS, t.d - c0), t.gate_count * t.d
    for gate in range(t.gate_count):
        panel = t.shared + t.panels_at + 4 * (gate * blocks + index) * t.d * COLS
        for r in range(0, t.n, t.row_step):
            rows = min(t.row_step, t.n - r)
            outer_tile(rows, t.d, t.shared + 4 * r * t.d, panel, tile, COLS, 0)
            for i in range(rows):
                at = 4 * ((t.step * t.n + r + i) * row + gate * t.d + c0)
                source, target = floats(t.pre + at, cells), floats(out + at, cells)
                sums = floats(tile + 4 * i * COLS, cells)
                for x in range(cells):
                    target[x] = source[x] + sums[x]


@compiled
def _activate(t: Any, row: int, c0: int, cells: int, alive: Any) -> None:
    """sigmoid of the gates i f o, tanh of g; the forget gate times cont."""
    i, f = _gate(row, t, 0, c0, cells), _gate(row, t, 1, c0, cells)
    o, g = _gate(row, t, 2, c0, cells), _gate(row, t, 3, c0, cells)
    for x in range(cells):
        i[x] = _sigmoid(i[x])
        f[x] = _sigmoid(f[x]) * alive
        o[x] = _sigmoid(o[x])
        g[x] = tanh(g[x])


@compiled
def _cells(t: Any, row: int, c0: int, cells: int, before: Any, cell: Any, h: Any) -> None:
    """cell = f * before + i * g; h = o * tanh cell."""
    i, f = _gate(row, t, 0, c0, cells), _gate(row, t, 1, c0, cells)
    o, g = _gate(row, t, 2, c0, cells), _gate(row, t, 3, c0, cells)
    for x in range(cells):
        cell[x] = f[x] * before[x] + i[x] * g[x]
        h[x] = o[x] * tanh(cell[x])


@task(LAYOUT)
def lstm_forward(table: Any, index: int, worker: int) -> None:
    """Some cells of a step."""
    t = carray(table, 1)[0]
    c0 = index * COLS
    cells = min(COLS, t.d - c0)
    _add_state(t, index, t.gates, t.private + worker * t.private_bytes)
    cont = floats(t.cont, t.steps * t.n)
    for r in range(t.n):
        at = t.step * t.n + r
        row = t.gates + 16 * at * t.d
        _activate(t, row, c0, cells, cont[at])
        before = t.c + 4 * (at - t.n) * t.d if t.step > 0 else t.c0 + 4 * r * t.d
        here = 4 * (at * t.d + c0)
        cell, h = floats(t.c + here, cells), floats(t.h + here, cells)
        _cells(t, row, c0, cells, floats(before + 4 * c0, cells), cell, h)


@task(LAYOUT)
def rnn_forward(table: Any, index: int, worker: int) -> None:
    """Some cells of a step."""
    t = carray(table, 1)[0]
    c0 = index * COLS
    cells = min(COLS, t.d - c0)
    _add_state(t, index, t.h, t.private + worker * t.private_bytes)
    for r in range(t.n):
        h = floats(t.h + 4 * ((t.step * t.n + r) * t.d + c0), cells)
        for x in range(cells):
            h[x] = tanh(h[x])


@task(LAYOUT)
def pack_columns(table: Any, index: int, worker: int) -> None:
    """Pack COLS columns of the weights, zeros behind the last."""
    t = carray(table, 1)[0]
    depth, c0 = t.gate_count * t.d, index * COLS
    cells = min(COLS, t.d - c0)
    source, to = t.weights + 4 * c0, t.shared + t.panels_at + 4 * index * depth * COLS
    for _ in range(depth):
        if cells == COLS:
            for x in range(0, COLS, WIDTH):
                copy_vector(source + 4 * x, to + 4 * x)
        else:
            line, panel = floats(source, cells), floats(to, COLS)
            for x in range(COLS):
                panel[x] = line[x] if x < cells else np.float32(0)
        source += 4 * t.d
        to += 4 * COLS


@task(LAYOUT)
def go_back(table: Any, index: int, worker: int) -> None:
    """Go one step back, before the first to the last."""
    t = carray(table, 1)[0]
    t.step = t.step - 1 if t.step > 0 else t.steps - 1


@compiled
def _from_behind(t: Any, index: int, back: int) -> None:
    """What comes to the task's cells (n, COLS) from the step behind, nothing to the last."""
    values = floats(back, t.n * COLS)
    if t.step == t.steps - 1:
        for x in range(t.n * COLS):
            values[x] = 0
        return
    depth = t.gate_count * t.d
    packed = t.shared + (t.step + 1) % 2 * t.packed_bytes
    panel = t.shared + t.panels_at + 4 * index * depth * COLS
    for i in range(0, t.n, t.row_step):
        rows = min(t.row_step, t.n - i)
        left = packed + 4 * i * depth
        outer_tile(rows, depth, left, panel, back + 4 * i * COLS, COLS, 0)
    cont = floats(t.cont, t.steps * t.n)[(t.step + 1) * t.n :]
    for r in range(t.n):
        for x in range(r * COLS, (r + 1) * COLS):
            values[x] *= cont[r]


@compiled
def _pack_row(t: Any, r: int, c0: int, cells: int) -> None:
    """Leave a stream's gradients of this step where the step before multiplies them."""
    depth = t.gate_count * t.d
    packed, pitch = _packed(t, t.step % 2, r, depth)
    row = t.diff_pre + 4 * (t.step * t.n + r) * depth
    for gate in range(t.gate_count):
        k = gate * t.d + c0
        source, out = floats(row + 4 * k, cells), floats(packed + 4 * k * pitch, cells * pitch)
        for x in range(cells):
            out[x * pitch] = source[x]


@compiled
def _cell_gradients(
    t: Any, gates: int, out: int, c0: int, cells: int, before: Any, cell: Any, diff_h: Any,
    back: Any, diff_cell: Any,
) -> None:  # fmt: skip
    """Gradients of the gates before activation; diff_cell becomes that of the cell before."""
    i, f = _gate(gates, t, 0, c0, cells), _gate(gates, t, 1, c0, cells)
    o, g = _gate(gates, t, 2, c0, cells), _gate(gates, t, 3, c0, cells)
    di, df = _gate(out, t, 0, c0, cells), _gate(out, t, 1, c0, cells)
    do, dg = _gate(out, t, 2, c0, cells), _gate(out, t, 3, c0, cells)
    for x in range(cells):
        squashed = tanh(cell[x])
        dh = diff_h[x] + back[x]
        whole = diff_cell[x] + dh * o[x] * (ONE - squashed * squashed)
        diff_cell[x] = whole * f[x]
        di[x] = whole * g[x] * i[x] * (ONE - i[x])
        df[x] = whole * before[x] * f[x] * (ONE - f[x])
        do[x] = dh * squashed * o[x] * (ONE - o[x])
        dg[x] = whole * i[x] * (ONE - g[x] * g[x])


@task(LAYOUT)
def lstm_backward(table: Any, index: int, worker: int) -> None:
    """Gradients of COLS cells of a step."""
    t = carray(table, 1)[0]
    c0 = index * COLS
    cells = min(COLS, t.d - c0)
    back = t.private + worker * t.private_bytes
    _from_behind(t, index, back)
    for r in range(t.n):
        at = t.step * t.n + r
        row, here = 16 * at * t.d, 4 * (at * t.d + c0)
        before = t.c + 4 * (at - t.n) * t.d if t.step > 0 else t.c0 + 4 * r * t.d
        diff_cell = floats(t.shared + t.cells_at + 4 * (r * t.d + c0), cells)
        if t.step == t.steps - 1:
            for x in range(cells):
                diff_cell[x] = 0
        _cell_gradients(
            t, t.gates + row, t.diff_pre + row, c0, cells, floats(before + 4 * c0, cells),
            floats(t.c + here, cells), floats(t.diff_h + here, cells),
            floats(back + 4 * r * COLS, cells), diff_cell,
        )  # fmt: skip
        _pack_row(t, r, c0, cells)


@task(LAYOUT)
def rnn_backward(table: Any, index: int, worker: int) -> None:
    """Gradients of COLS cells of a step."""
    t = carray(table, 1)[0]
    c0 = index * COLS
    cells = min(COLS, t.d - c0)
    back = t.private + worker * t.private_bytes
    _from_behind(t, index, back)
    for r in range(t.n):
        here = 4 * ((t.step * t.n + r) * t.d + c0)
        h, diff_h = floats(t.h + here, cells), floats(t.diff_h + here, cells)
        out, more = floats(t.diff_pre + here, cells), floats(back + 4 * r * COLS, cells)
        for x in range(cells):
            out[x] = (diff_h[x] + more[x]) * (ONE - h[x] * h[x])
        _pack_row(t, r, c0, cells)


@compiled
def _copy_gates(t: Any, r: int, scratch: int) -> None:
    """Activated gates of one stream of a unit."""
    source, gates = floats(t.pre + 16 * r * t.d, 4 * t.d), floats(scratch, 4 * t.d)
    for x in range(4 * t.d):
        gates[x] = source[x]
    _activate(t, scratch, 0, t.d, floats(t.cont, t.n)[r])


@task(LAYOUT)
def unit_forward(table: Any, index: int, worker: int) -> None:
    """One stream of a unit."""
    t = carray(table, 1)[0]
    scratch, here = t.private + worker * t.private_bytes, 4 * index * t.d
    _copy_gates(t, index, scratch)
    cell, h = floats(t.c + here, t.d), floats(t.h + here, t.d)
    _cells(t, scratch, 0, t.d, floats(t.c0 + here, t.d), cell, h)


@task(LAYOUT)
def unit_backward(table: Any, index: int, worker: int) -> None:
    """Gradients of one stream of a unit."""
    t = carray(table, 1)[0]
    scratch, here = t.private + worker * t.private_bytes, 4 * index * t.d
    _copy_gates(t, index, scratch)
    spare = scratch + 16 * t.d
    cell, none = floats(spare, t.d), floats(spare + 4 * t.d, t.d)
    before = floats(t.c0 + here, t.d)
    _cells(t, scratch, 0, t.d, before, cell, none)
    diff_c, diff_c0 = floats(t.diff_c + here, t.d), floats(t.diff_c0 + here, t.d)
    for x in range(t.d):
        none[x] = 0
        diff_c0[x] = diff_c[x]
    diff_h = floats(t.diff_h + here, t.d)
    out = t.diff_pre + 4 * here
    _cell_gradients(t, scratch, out, 0, t.d, before, cell, diff_h, none, diff_c0)


class Recurrence:
    """Candidate for whole sequences of LSTM and RNN, both directions."""

    name = "fused steps"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """At least one cell in one step of one stream."""
        assert isinstance(op, LstmForward | LstmBackward | RnnForward | RnnBackward), op
        return None if op.t * op.n * op.d else Refusal("there is nothing to compute")

    def plan(self, op: Operator) -> Plan:
        """Two jobs for each step."""
        assert isinstance(op, LstmForward | LstmBackward | RnnForward | RnnBackward), op
        gates = 4 if isinstance(op, LstmForward | LstmBackward) else 1
        values = {"steps": op.t, "n": op.n, "d": op.d, "gate_count": gates}
        ahead = isinstance(op, LstmForward | RnnForward)
        blocks, depth = -(-op.d // COLS), op.d if ahead else gates * op.d
        packed = -(-4 * op.n * depth // 128) * 128
        cells_at = packed if ahead else 2 * packed
        panels_at = cells_at if ahead else cells_at + -(-4 * op.n * op.d // 128) * 128
        values |= {"row_step": split_evenly(op.n, -(-op.n // ROWS)), "packed_bytes": packed}
        values |= {"cells_at": cells_at, "panels_at": panels_at, "step": (op.t - 1) * ahead}
        panel_bytes = 4 * blocks * gates * op.d * COLS
        if ahead:
            step = lstm_forward if gates == 4 else rnn_forward
            jobs = [
                Job(pack_rows_of_cells, gates * blocks),
                *[Job(carry, 1), Job(step, blocks)] * op.t,
            ]
            private = 4 * ROWS * COLS
        else:
            step = lstm_backward if gates == 4 else rnn_backward
            jobs = [Job(pack_columns, blocks), *[Job(go_back, 1), Job(step, blocks)] * op.t]
            private = 4 * op.n * COLS
        scratch = Scratch(panels_at + panel_bytes, private)
        return TaskPlan(op, self.name, self.workspace, jobs, LAYOUT, values, scratch=scratch)


class Units:
    """Candidate for single steps of LSTM cells, both directions."""

    name = "fused gates"

    def __init__(self, workspace: Workspace) -> None:
        """Plans run on the workspace's team."""
        self.workspace = workspace

    def supports(self, op: Operator) -> Refusal | None:
        """Every unit."""
        return None

    def plan(self, op: Operator) -> Plan:
        """One task for each stream."""
        assert isinstance(op, LstmUnitForward | LstmUnitBackward), op
        step: Task = unit_forward if isinstance(op, LstmUnitForward) else unit_backward
        values = {"n": op.n, "d": op.d, "gate_count": 4}
        return TaskPlan(
            op, self.name, self.workspace, [Job(step, op.n)], LAYOUT, values,
            scratch=Scratch(0, 4 * 6 * op.d),
        )  # fmt: skip
