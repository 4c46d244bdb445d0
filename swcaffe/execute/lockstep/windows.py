"""Leaves of the mesh executor that walk the windows of image strips, on every CPE."""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.execute.compiled import leaf

__all__ = ["ave_pool", "ave_pool_gradient", "col2im", "im2col", "max_pool", "max_pool_gradient"]

LOWEST = np.float32(-3.4028234663852886e38)
"""-FLT_MAX."""


@leaf
def im2col(
    ldm: Any,
    matrix: int,
    matrix_strides: Any,
    matrix_extents: Any,
    first: Any,
    strip: int,
    strip_strides: Any,
    extents: Any,
    w: Any,
) -> None:
    """Windows of strips (channels, images, rows, cols); w: out, kernel, stride, dilation, shift.

    matrix_strides, matrix_extents: rows, images, positions in the last three axes; first (cpes,):
    row of the whole matrix that is row 0 of a CPE's block.
    """
    taps = w[2] * w[3]
    for cpe in range(ldm.shape[0]):
        images, height, width = extents[cpe, 1], extents[cpe, 2], extents[cpe, 3]
        for row in range(matrix_extents[cpe, 1]):
            c, tap = (first[cpe] + row) // taps, (first[cpe] + row) % taps
            y0 = tap // w[3] * w[6] + w[8]
            x0 = tap % w[3] * w[7] + w[9]
            for g in range(images):
                to = matrix + row * matrix_strides[1] + g * matrix_strides[2]
                plane = strip + c * strip_strides[0] + g * strip_strides[1]
                for oy in range(w[0]):
                    y = oy * w[4] + y0
                    for ox in range(w[1]):
                        x = ox * w[5] + x0
                        value = np.float32(0)
                        if 0 <= y < height and 0 <= x < width:
                            value = ldm[cpe, plane + y * strip_strides[2] + x]
                        ldm[cpe, to + oy * w[1] + ox] = value


@leaf
def col2im(
    ldm: Any, strip: int, strip_strides: Any, matrix: int, matrix_strides: Any, extents: Any, w: Any
) -> None:
    """The adjoint of im2col, each image element summed in double in order of taps."""
    for cpe in range(ldm.shape[0]):
        channels, images, height, width = extents[cpe]
        plane_sums = np.zeros((height, width))
        taps = w[2] * w[3]
        for c in range(channels):
            for g in range(images):
                plane_sums[:] = 0
                for tap in range(taps):
                    y0 = tap // w[3] * w[6] + w[8]
                    x0 = tap % w[3] * w[7] + w[9]
                    at = (
                        matrix + (c * w[2] * w[3] + tap) * matrix_strides[0] + g * matrix_strides[1]
                    )
                    for oy in range(w[0]):
                        y = oy * w[4] + y0
                        for ox in range(w[1]):
                            x = ox * w[5] + x0
                            if 0 <= y < height and 0 <= x < width:
                                plane_sums[y, x] += ldm[cpe, at + oy * w[1] + ox]
                plane = strip + c * strip_strides[0] + g * strip_strides[1]
                for y in range(height):
                    for x in range(width):
                        ldm[cpe, plane + y * strip_strides[2] + x] = np.float32(plane_sums[y, x])


@leaf
def _window(w: Any, axis: int, position: int, extent: int) -> tuple[int, int, int]:
    """(start, end, divisor's length) of a window; w: kernel, stride, pad, size, shift, first."""
    start = position * w[2 + axis] + w[8 + axis]
    place = start + w[10] if axis == 0 else start
    length = min(place + w[axis], w[6 + axis] + w[4 + axis]) - place
    return max(start, 0), min(start + w[axis], extent), length


@leaf
def max_pool(
    ldm: Any, ints: Any, dst: int, index: int, out: Any, src: int, strip: Any, w: Any
) -> None:
    """Maxima of windows and their places; out (cpes, 4), strip (cpes, 4): planes in axis 1."""
    for cpe in range(ldm.shape[0]):
        for plane in range(out[cpe, 1]):
            for y in range(out[cpe, 2]):
                for x in range(out[cpe, 3]):
                    h0, h1, _ = _window(w, 0, y, strip[cpe, 2])
                    w0, w1, _ = _window(w, 1, x, strip[cpe, 3])
                    best, place = LOWEST, -1
                    for h in range(h0, h1):
                        for v in range(w0, w1):
                            at = src + (plane * strip[cpe, 2] + h) * strip[cpe, 3] + v
                            if ldm[cpe, at] > best:
                                best, place = ldm[cpe, at], (w[10] + h) * w[7] + v
                    at = (plane * out[cpe, 2] + y) * out[cpe, 3] + x
                    ldm[cpe, dst + at] = best
                    ints[cpe, index + at] = place


@leaf
def max_pool_gradient(
    ldm: Any, ints: Any, diff: int, strip: Any, index: int, diff_dst: int, out: Any, w: Any
) -> None:
    """Gradients to the places in the strip, summed in double."""
    for cpe in range(ldm.shape[0]):
        size, outputs = strip[cpe, 2] * strip[cpe, 3], out[cpe, 2] * out[cpe, 3]
        total = np.zeros(size)
        before = w[10] * w[7]
        for plane in range(strip[cpe, 1]):
            total[:] = 0
            for x in range(plane * outputs, plane * outputs + outputs):
                place = ints[cpe, index + x]
                if before <= place < before + size:
                    total[place - before] += ldm[cpe, diff_dst + x]
            for at in range(size):
                ldm[cpe, diff + plane * size + at] = np.float32(total[at])


@leaf
def ave_pool(ldm: Any, dst: int, out: Any, src: int, strip: Any, w: Any) -> None:
    """Means of windows, summed in double."""
    for cpe in range(ldm.shape[0]):
        for plane in range(out[cpe, 1]):
            for y in range(out[cpe, 2]):
                for x in range(out[cpe, 3]):
                    h0, h1, rows = _window(w, 0, y, strip[cpe, 2])
                    w0, w1, cols = _window(w, 1, x, strip[cpe, 3])
                    total = 0.0
                    for h in range(h0, h1):
                        for v in range(w0, w1):
                            at = src + (plane * strip[cpe, 2] + h) * strip[cpe, 3] + v
                            total += ldm[cpe, at]
                    at = (plane * out[cpe, 2] + y) * out[cpe, 3] + x
                    ldm[cpe, dst + at] = np.float32(np.divide(total, rows * cols))


@leaf
def ave_pool_gradient(ldm: Any, diff: int, strip: Any, diff_dst: int, out: Any, w: Any) -> None:
    """Every output's share to its window, summed in double."""
    for cpe in range(ldm.shape[0]):
        height, width = strip[cpe, 2], strip[cpe, 3]
        total = np.zeros((height, width))
        for plane in range(strip[cpe, 1]):
            total[:] = 0
            for y in range(out[cpe, 2]):
                for x in range(out[cpe, 3]):
                    h0, h1, rows = _window(w, 0, y, height)
                    w0, w1, cols = _window(w, 1, x, width)
                    at = diff_dst + (plane * out[cpe, 2] + y) * out[cpe, 3] + x
                    share = np.divide(np.float64(ldm[cpe, at]), rows * cols)
                    for h in range(h0, h1):
                        for v in range(w0, w1):
                            total[h, v] += share
            for h in range(height):
                for v in range(width):
                    ldm[cpe, diff + (plane * height + h) * width + v] = np.float32(total[h, v])
