"""Weight gradients of pointwise kernels: one product over the positions of the whole batch.

With a kernel of one tap the gradient is diff_dst (outputs, batch x positions) times the inputs
that the kernel meets (batch x positions, channels). Both lie along the positions, so both are
packed by transposed blocks, once; the product then needs no sums across the lanes of a vector,
which for few positions take longer than the products themselves.
"""

from __future__ import annotations

from typing import Any

from swcaffe.engine.host.images import Axes
from swcaffe.engine.host.native import carray, compiled, floats, regrouped
from swcaffe.engine.host.plans import Job, Scratch, fields, split_evenly
from swcaffe.engine.host.team import task
from swcaffe.kernels import COLS, ROWS, outer_tile, pack_cols, pack_rows

__all__ = ["POINTWISE", "pointwise_values"]

POINTWISE = fields(
    "src dst diff_weights diff_bias",
    "n groups channels outputs positions in0 in1 in2 out0 out1 out2 stride0 stride1 stride2 "
    "has_bias accumulate strided panels row_blocks blocks_each panels_each outputs_at",
)
DEPTH = 512
"""Positions multiplied at once: a block of ROWS outputs then stays in the first-level cache."""
WIDE = 8
"""Panels of a task: they stay in the second-level cache."""
TASKS = 16
"""Fewest tasks to aim at."""


@regrouped
def _sum(values: Any) -> Any:
    total = 0.0
    for x in range(len(values)):
        total += values[x]
    return total


@compiled
def _met(t: Any, plane: int, out: Any) -> None:
    """The inputs of one plane that the strided kernel meets."""
    at = 0
    for o0 in range(t.out0):
        for o1 in range(t.out1):
            first = (o0 * t.stride0 * t.in1 + o1 * t.stride1) * t.in2
            line = floats(plane + 4 * first, t.in2)
            for o2 in range(t.out2):
                out[at + o2] = line[o2 * t.stride2]
            at += t.out2


@task(POINTWISE)
def pack_inputs(table: Any, index: int, worker: int) -> None:
    """One panel (batch x positions, COLS) of a group's channels."""
    t = carray(table, 1)[0]
    group, c0 = index // t.panels, index % t.panels * COLS
    channels, plane = min(COLS, t.channels - c0), t.in0 * t.in1 * t.in2
    panel = t.shared + 4 * index * t.n * t.positions * COLS
    copy = t.private + worker * t.private_bytes
    for n in range(t.n):
        image = t.src + 4 * ((n * t.groups + group) * t.channels + c0) * plane
        out = floats(panel + 4 * n * t.positions * COLS, t.positions * COLS)
        if t.strided:
            lines = floats(copy, channels * t.positions)
            for c in range(channels):
                _met(t, image + 4 * c * plane, lines[c * t.positions :])
        else:
            lines = floats(image, channels * plane)
        pack_cols(lines, t.positions, channels, 1, t.positions, out)


@task(POINTWISE)
def pack_outputs(table: Any, index: int, worker: int) -> None:
    """One block (batch x positions, ROWS) of a group's outputs."""
    t = carray(table, 1)[0]
    group, o0 = index // t.row_blocks, index % t.row_blocks * ROWS
    rows, all_rows = min(ROWS, t.outputs - o0), t.n * t.groups * t.outputs
    place = group * t.outputs + o0
    block = t.shared + t.outputs_at + 4 * place * t.n * t.positions
    for n in range(t.n):
        first = n * t.groups * t.outputs + place
        source = floats(t.dst + 4 * first * t.positions, rows * t.positions)
        out = floats(block + 4 * n * t.positions * rows, rows * t.positions)
        pack_rows(source, rows, t.positions, t.positions, 1, out, all_rows - first)


@task(POINTWISE)
def multiply(table: Any, index: int, worker: int) -> None:
    """Some blocks of outputs times some panels."""
    t = carray(table, 1)[0]
    wide, tall = _parts(t.panels, t.panels_each), _parts(t.row_blocks, t.blocks_each)
    panel0, block0 = index % wide * t.panels_each, index // wide % tall * t.blocks_each
    group = index // wide // tall
    length, tile = t.n * t.positions, t.private + worker * t.private_bytes
    weights = t.diff_weights + 4 * group * t.outputs * t.channels
    for k in range(0, length, DEPTH):
        depth, old = min(DEPTH, length - k), 1 if k > 0 else t.accumulate
        for o in range(block0 * ROWS, min((block0 + t.blocks_each) * ROWS, t.outputs), ROWS):
            rows = min(ROWS, t.outputs - o)
            left = t.shared + t.outputs_at + 4 * ((group * t.outputs + o) * length + k * rows)
            for p in range(panel0, min(panel0 + t.panels_each, t.panels)):
                right = t.shared + 4 * ((group * t.panels + p) * length + k) * COLS
                cols, out = min(COLS, t.channels - p * COLS), 4 * (o * t.channels + p * COLS)
                if cols == COLS:
                    outer_tile(rows, depth, left, right, weights + out, t.channels, old)
                else:
                    outer_tile(rows, depth, left, right, tile, COLS, 0)
                    _put(tile, weights + out, rows, cols, t.channels, old)


@compiled
def _parts(total: int, each: int) -> int:
    return (total + each - 1) // each


@compiled
def _put(tile: int, out: int, rows: int, cols: int, pitch: int, old: int) -> None:
    """Move a tile narrower than COLS, adding to what is there if `old` says so."""
    for r in range(rows):
        source, target = floats(tile + 4 * r * COLS, cols), floats(out + 4 * r * pitch, cols)
        for x in range(cols):
            target[x] = source[x] + (target[x] if old else 0)


@task(POINTWISE)
def sum_bias(table: Any, index: int, worker: int) -> None:
    """The bias of one output."""
    t = carray(table, 1)[0]
    total, rows = 0.0, t.groups * t.outputs
    for n in range(t.n):
        total += _sum(floats(t.dst + 4 * (n * rows + index) * t.positions, t.positions))
    out = floats(t.diff_bias, rows)
    out[index] = total + (out[index] if t.accumulate else 0)


def pointwise_values(
    axes: Axes, has_bias: bool, accumulate: bool
) -> tuple[dict[str, Any], list[Job], Scratch]:
    """Words, jobs and scratch."""
    names = ("n", "groups", "channels", "outputs", "positions")
    values: dict[str, Any] = {name: getattr(axes, name) for name in names}
    for axis in range(3):
        values[f"in{axis}"], values[f"out{axis}"] = axes.in_size[axis], axes.out_size[axis]
        values[f"stride{axis}"] = axes.stride[axis]
    panels, row_blocks = -(-axes.channels // COLS), -(-axes.outputs // ROWS)
    panels_each = split_evenly(panels, -(-panels // WIDE))
    wide = -(-panels // panels_each) * axes.groups
    blocks_each = split_evenly(row_blocks, -(-TASKS // wide))
    length = axes.n * axes.positions
    outputs_at = 4 * axes.groups * panels * length * COLS
    values |= {"has_bias": int(has_bias), "accumulate": int(accumulate)}
    values |= {"strided": int(max(axes.stride) > 1), "panels": panels, "row_blocks": row_blocks}
    values |= {"blocks_each": blocks_each, "panels_each": panels_each, "outputs_at": outputs_at}
    outputs = axes.groups * axes.outputs
    jobs = [
        Job(pack_inputs, axes.groups * panels),
        Job(pack_outputs, axes.groups * row_blocks),
        Job(multiply, wide * -(-row_blocks // blocks_each)),
        Job(sum_bias, outputs * has_bias),
    ]
    private = 4 * COLS * max(axes.positions, ROWS)
    return values, jobs, Scratch(outputs_at + 4 * outputs * length, private)
