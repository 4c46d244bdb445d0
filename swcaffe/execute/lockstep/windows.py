"""Leaves of the mesh executor that walk the windows of image strips, on every CPE."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["col2im", "im2col"]

_leaf = njit(nogil=True, cache=True)


@_leaf
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


@_leaf
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
