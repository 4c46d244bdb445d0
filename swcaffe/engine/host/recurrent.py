"""Recurrent sequences: one job a step, whose tasks multiply with the state and finish their cells.

A task owns some cells in all streams. Forward it takes dot products of the state with its rows of
the weights, as both are contiguous. Backward it multiplies the gradients of the step behind with
its columns of the weights, packed once for all steps, and leaves its own gradients packed for the
step before. A task of its own between two jobs moves the table's word `step` on.
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
from swcaffe.kernels import COLS, DOT_COLS, DOT_FLOATS, DOT_ROWS, ROWS, WIDTH, dot_tile, outer_tile
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
    "steps n d gate_count block row_step step packed_bytes cells_at panels_at",
)
TASKS = 16
"""Tasks of a step to aim at."""
HALF, ONE = np.float32(0.5), np.float32(1)


@compiled
def _sigmoid(x: Any) -> Any:
    return HALF * tanh(HALF * x) + HALF


@compiled
def _gate(row: int, t: Any, gate: int, c0: int, cells: int) -> Any:
    """Some cells of one gate in a row of gates."""
    return floats(row + 4 * (gate * t.d + c0), cells)


@task(LAYOUT)
def carry(table: Any, index: int, worker: int) -> None:
    """Go one step on, behind the last to the first; carried = cont * the state before."""
    t = carray(table, 1)[0]
    step = t.step + 1 if t.step + 1 < t.steps else 0
    t.step = step
    size = t.n * t.d
    cont = floats(t.cont, t.steps * t.n)[step * t.n :]
    before = floats(t.h + 4 * (step - 1) * size if step > 0 else t.h0, size)
    carried = floats(t.carried + 4 * step * size, size)
    for r in range(t.n):
        for x in range(r * t.d, (r + 1) * t.d):
            carried[x] = cont[r] * before[x]


@compiled
def _tile(rows: int, cols: int, k: int, left: int, right: int, tile: int) -> None:
    """A tile of dot products; `dot_tile` for vectors, a loop for shorter rows."""
    if k >= WIDTH:
        dot_tile(rows, cols, k, left, k, right, k, tile)
        return
    a, b, out = floats(left, rows * k), floats(right, cols * k), floats(tile, DOT_FLOATS)
    for i in range(rows):
        for j in range(cols):
            total = np.float32(0)
            for p in range(k):
                total += a[i * k + p] * b[j * k + p]
            out[i * DOT_COLS + j] = total


@compiled
def _add_state(t: Any, c0: int, cells: int, out: int, tile: int) -> None:
    """Set the task's cells of all gates at `out` to pre + carried @ weights.T."""
    row = t.gate_count * t.d
    carried = t.carried + 4 * t.step * t.n * t.d
    sums, size = floats(tile, DOT_FLOATS), t.steps * t.n * row
    source, target = floats(t.pre, size), floats(out, size)
    for gate in range(t.gate_count):
        for c in range(c0, c0 + cells, DOT_COLS):
            cols = min(DOT_COLS, c0 + cells - c)
            first = gate * t.d + c
            for r in range(0, t.n, DOT_ROWS):
                rows = min(DOT_ROWS, t.n - r)
                left, right = carried + 4 * r * t.d, t.weights + 4 * first * t.d
                _tile(rows, cols, t.d, left, right, tile)
                for i in range(rows):
                    at = (t.step * t.n + r + i) * row + first
                    for j in range(cols):
                        target[at + j] = source[at + j] + sums[i * DOT_COLS + j]


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
    c0 = index * t.block
    cells = min(t.block, t.d - c0)
    _add_state(t, c0, cells, t.gates, t.private + worker * t.private_bytes)
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
    c0 = index * t.block
    cells = min(t.block, t.d - c0)
    _add_state(t, c0, cells, t.h, t.private + worker * t.private_bytes)
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
    first = r // t.row_step * t.row_step
    rows = min(t.row_step, t.n - first)
    packed = t.shared + t.step % 2 * t.packed_bytes + 4 * (first * depth + r - first)
    row = t.diff_pre + 4 * (t.step * t.n + r) * depth
    for gate in range(t.gate_count):
        k = gate * t.d + c0
        source, out = floats(row + 4 * k, cells), floats(packed + 4 * k * rows, cells * rows)
        for x in range(cells):
            out[x * rows] = source[x]


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
        if isinstance(op, LstmForward | RnnForward):
            block = -(-split_evenly(op.d, TASKS) // DOT_COLS) * DOT_COLS
            values |= {"block": block, "step": op.t - 1}
            step = lstm_forward if gates == 4 else rnn_forward
            jobs = [Job(carry, 1), Job(step, -(-op.d // block))] * op.t
            return self._plan(op, jobs, values, Scratch(0, 4 * DOT_FLOATS))
        depth, panels = gates * op.d, -(-op.d // COLS)
        packed = -(-4 * op.n * depth // 128) * 128
        cells_at = 2 * packed
        panels_at = cells_at + -(-4 * op.n * op.d // 128) * 128
        values |= {"row_step": split_evenly(op.n, -(-op.n // ROWS)), "packed_bytes": packed}
        values |= {"cells_at": cells_at, "panels_at": panels_at}
        step = lstm_backward if gates == 4 else rnn_backward
        jobs = [Job(pack_columns, panels), *[Job(go_back, 1), Job(step, panels)] * op.t]
        scratch = Scratch(panels_at + 4 * panels * depth * COLS, 4 * op.n * COLS)
        return self._plan(op, jobs, values, scratch)

    def _plan(
        self, op: Operator, jobs: list[Job], values: dict[str, int], scratch: Scratch
    ) -> Plan:
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
