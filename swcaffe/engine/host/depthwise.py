"""Depthwise convolution: each plane has a kernel of its own, so there is no product to pack for.

A task copies one plane (see images.py) and sums its taps, weighted, into whole vectors of outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from swcaffe.engine.host.images import LAYOUT, Axes, lay_out
from swcaffe.engine.host.native import carray, floats
from swcaffe.engine.host.plans import Scratch
from swcaffe.engine.host.team import task
from swcaffe.kernels import VECTOR, WIDTH, WORD, Loop, element, fma, load, store, word

__all__ = ["depthwise", "depthwise_values"]

_intrinsic: Any = intrinsic  # numba's own annotation describes the typing function


@_intrinsic  # type: ignore[untyped-decorator]
def _weigh(
    typing: Any, target: Any, start: Any, offsets: Any, weights: Any, taps: Any, bias: Any
) -> Any:
    """Set WIDTH floats to bias + the sum over taps of weight * WIDTH words from its offset on."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        target, start, offsets, weights, taps, bias = args
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)

        def splat(scalar: Any) -> Any:
            undefined = ir.Constant(VECTOR, ir.Undefined)
            one = b.insert_element(undefined, scalar, ir.IntType(32)(0))
            return b.shuffle_vector(one, undefined, zeros)

        with Loop(b, taps, [splat(bias)]) as loop:
            offset = load(b, b.add(offsets, b.mul(loop.index, word(8))), WORD)
            weight = splat(load(b, element(b, weights, loop.index), ir.FloatType()))
            values = load(b, element(b, start, offset))
            loop.next = [fma(b, weight, values, loop.values[0])]
        store(b, loop.values[0], target)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5, types.float32), generate


@task(LAYOUT)
def depthwise(table: Any, index: int, worker: int) -> None:
    """One plane of outputs."""
    t = carray(table, 1)[0]
    group = index % t.groups
    copy = t.private + worker * t.private_bytes
    source = t.src + 4 * index * t.in0 * t.in1 * t.in2
    lay_out(t, source, 1, 0, t.pitch // t.row_pitch, copy)
    kernel, spare = copy + t.panels_at, copy + t.tile_at
    weights, given = floats(kernel, t.taps), floats(t.weights + 4 * group * t.taps, t.taps)
    for k in range(t.taps):
        weights[k] = given[t.taps - 1 - k if t.w_flip else k]
    bias = floats(t.bias, t.groups)[group] if t.has_bias else np.float32(0)
    out, room = t.dst + 4 * index * t.positions, t.positions
    for o0 in range(t.out0):
        for o1 in range(t.out1):
            start = copy + 4 * (o0 * t.stride0 * t.row_pitch + o1 * t.stride1 * t.line_pitch)
            for x in range(0, t.out2, WIDTH):
                fits = room - x >= WIDTH
                target = out + 4 * x if fits else spare
                _weigh(target, start + 4 * x, t.tap_offsets, kernel, t.taps, bias)
                if not fits:
                    count = t.out2 - x
                    values, rest = floats(spare, count), floats(out + 4 * x, count)
                    for i in range(count):
                        rest[i] = values[i]
            out += 4 * t.out2
            room -= t.out2


def depthwise_values(axes: Axes, has_bias: bool) -> tuple[dict[str, Any], int, Scratch]:
    """Words, number of tasks and scratch."""
    pitch = axes.pitch(axes.out_size[0])
    panels_at = -(-4 * (pitch + 2 * WIDTH) // 64) * 64
    tile_at = panels_at + -(-4 * axes.taps // 64) * 64
    values = {**axes.words(), "pitch": pitch, "has_bias": int(has_bias)}
    values |= {"panels_at": panels_at, "tile_at": tile_at}
    return values, axes.n * axes.groups, Scratch(0, tile_at + 4 * WIDTH)
