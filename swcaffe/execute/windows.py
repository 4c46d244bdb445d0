"""Compiled leaves of the tile executor that walk the windows of image strips."""

from __future__ import annotations

from typing import Any

import numpy as np

from swcaffe.execute.compiled import leaf
from swcaffe.execute.rows import clear, move
from swcaffe.kernels import COLS

__all__ = [
    "ave_pool",
    "ave_pool_gradient",
    "col2im",
    "im2col",
    "max_pool",
    "max_pool_gradient",
    "panel_im2col",
]

LOWEST = np.float32(-3.4028234663852886e38)
"""-FLT_MAX."""
LINE = 16
"""Floats of a cache line of the host."""


@leaf
def _span(out: int, stride: int, offset: int, size: int) -> tuple[int, int]:
    """Output positions o for which 0 <= o * stride + offset < size."""
    low = 0 if offset >= 0 else -(offset // stride)
    high = (size - 1 - offset) // stride + 1 if size > offset else 0
    low = min(low, out)
    return low, max(low, min(high, out))


@leaf
def im2col(matrix: Any, m: int, strip: Any, s: int, p: Any) -> None:
    """p: channels, images, out, kernel, stride, dilation, shift, strip sizes, strides."""
    channels, images, oh, ow, kh, kw = p[0], p[1], p[2], p[3], p[4], p[5]
    to, source = matrix.ctypes.data + 4 * m, strip.ctypes.data + 4 * s
    for c in range(channels):
        for ky in range(kh):
            y0 = ky * p[8] + p[10]
            top, bottom = _span(oh, p[6], y0, p[12])
            for kx in range(kw):
                x0 = kx * p[9] + p[11]
                left, right = _span(ow, p[7], x0, p[13])
                row = ((c * kh + ky) * kw + kx) * p[17]
                for g in range(images):
                    out = row + g * p[18]
                    plane = c * p[14] + g * p[15] + y0 * p[16] + x0
                    clear(to + 4 * out, top * ow)
                    clear(to + 4 * (out + bottom * ow), (oh - bottom) * ow)
                    for y in range(top, bottom):
                        at = out + y * ow
                        first = plane + y * p[6] * p[16]
                        clear(to + 4 * at, left)
                        if p[7] == 1:
                            move(to + 4 * (at + left), source + 4 * (first + left), right - left)
                        elif left < right:
                            line, pixels = matrix[m + at + left :], strip[s + first + left * p[7] :]
                            for x in range(right - left):
                                line[x] = pixels[x * p[7]]
                        clear(to + 4 * (at + right), ow - right)


@leaf
def _panel_row(to: int, depth: int, at: int, source: int, count: int, zero: bool) -> None:
    """Write `count` columns from `at` on of a matrix row in panels of COLS, (depth, COLS) each."""
    while count > 0:
        lane = at % COLS
        part = min(count, COLS - lane)
        target = to + 4 * (at // COLS * depth * COLS + lane)
        if zero:
            clear(target, part)
        else:
            move(target, source, part)
        at, source, count = at + part, source + 4 * part, count - part


@leaf
def panel_im2col(matrix: Any, m: int, strip: Any, s: int, p: Any) -> None:
    """im2col at column stride 1, with the matrix in panels; p as there."""
    channels, images, oh, ow, kh, kw = p[0], p[1], p[2], p[3], p[4], p[5]
    depth = channels * kh * kw
    source = strip.ctypes.data + 4 * s
    for c in range(channels):
        for ky in range(kh):
            y0 = ky * p[8] + p[10]
            top, bottom = _span(oh, p[6], y0, p[12])
            for kx in range(kw):
                x0 = kx * p[9] + p[11]
                left, right = _span(ow, 1, x0, p[13])
                to = matrix.ctypes.data + 4 * (m + ((c * kh + ky) * kw + kx) * COLS)
                for g in range(images):
                    at = g * p[18]
                    plane = c * p[14] + g * p[15] + y0 * p[16] + x0
                    _panel_row(to, depth, at, 0, top * ow, True)
                    _panel_row(to, depth, at + bottom * ow, 0, (oh - bottom) * ow, True)
                    for y in range(top, bottom):
                        row = at + y * ow
                        first = source + 4 * (plane + y * p[6] * p[16] + left)
                        _panel_row(to, depth, row, 0, left, True)
                        _panel_row(to, depth, row + left, first, right - left, False)
                        _panel_row(to, depth, row + right, 0, ow - right, True)


@leaf
def col2im(strip: Any, s: int, matrix: Any, m: int, p: Any) -> None:
    """The adjoint of im2col; the strip is cleared first."""
    channels, images, oh, ow, kh, kw = p[0], p[1], p[2], p[3], p[4], p[5]
    to = strip.ctypes.data + 4 * s
    for c in range(channels):
        for g in range(images):
            plane = c * p[14] + g * p[15]
            for y in range(p[12]):
                clear(to + 4 * (plane + y * p[16]), p[13])
            for ky in range(kh):
                y0 = ky * p[8] + p[10]
                top, bottom = _span(oh, p[6], y0, p[12])
                for kx in range(kw):
                    x0 = kx * p[9] + p[11]
                    left, right = _span(ow, p[7], x0, p[13])
                    row = ((c * kh + ky) * kw + kx) * p[17] + g * p[18]
                    if left == right:
                        continue
                    for y in range(top, bottom):
                        at, first = row + y * ow, plane + (y * p[6] + y0) * p[16] + x0
                        line = matrix[m + at + left : m + at + right]
                        pixels = strip[s + first + left * p[7] :]
                        if p[7] == 1:
                            for x in range(right - left):
                                pixels[x] += line[x]
                        else:
                            for x in range(right - left):
                                pixels[x * p[7]] += line[x]


@leaf
def _split(copy: Any, src: Any, s: int, p: Any, height: int, width: int) -> None:
    """A plane by stride, (sh, sw, height, width): windows' taps then lie without gaps.

    p as in max_pool; LOWEST stands where there is no image.
    """
    for phase in range(min(p[7], p[5]) * min(p[8], p[6])):
        py, px = phase // min(p[8], p[6]), phase % min(p[8], p[6])
        low, high = _span(width, p[8], px + p[10], p[4])
        for r in range(height):
            y, to = r * p[7] + py + p[9], (phase * height + r) * width
            inside = 0 <= y < p[3]
            left, right = (low, high) if inside else (width, width)
            copy[to : to + left] = LOWEST
            copy[to + right : to + width] = LOWEST
            if not inside or low == high:
                continue
            # slices, so that no index can be negative: such loops become vector code
            at = s + y * p[4] + px + p[10] + low * p[8]
            line, pixels = copy[to + low : to + high], src[at:]
            if p[8] == 1:
                for x in range(high - low):
                    line[x] = pixels[x]
            elif p[8] == 2:
                for x in range(high - low):
                    line[x] = pixels[2 * x]
            else:
                for x in range(high - low):
                    line[x] = pixels[x * p[8]]


@leaf
def _fold(best: Any, taps: Any, values: Any, at: int, count: int, tap: int) -> None:
    """Where a value is greater than the best so far, it is the best, and this its place."""
    number = np.int32(tap)
    line = values[at : at + count]
    for x in range(count):
        value, old, where = line[x], best[x], taps[x]
        best[x] = value if value > old else old
        taps[x] = number if value > old else where


@leaf
def max_pool(dst: Any, d: int, index: Any, i: int, src: Any, s: int, p: Any) -> None:
    """p: planes, out, strip, kernel, stride, shift, first, size, pad; taps in row order.

    taps are places relative to the corner of the window, or -1.
    """
    oh, ow, kh, kw, sh, sw = p[1], p[2], p[5], p[6], p[7], p[8]
    height, width = oh + (kh - 1) // sh, ow + (kw - 1) // sw
    across = min(sw, kw)
    size = -(-oh * width // LINE) * LINE
    work = np.empty(2 * size + (min(sh, kh) * across * height + 1) * width + LINE, np.float32)
    work = work[-(work.ctypes.data // 4) % LINE :]  # rows that start with a cache line
    best, taps, copy = work[:size], work[size : 2 * size].view(np.int32), work[2 * size :]
    source = best.ctypes.data
    words, target = index.view(np.int32), dst.ctypes.data + 4 * d
    for plane in range(p[0]):
        _split(copy, src, s + plane * p[3] * p[4], p, height, width)
        best[:] = LOWEST
        taps[:] = -1
        for tap in range(kh * kw):
            ky, kx = tap // kw, tap % kw
            phase = ky % sh * across + kx % sw
            at = (phase * height + ky // sh) * width + kx // sw
            _fold(best, taps, copy, at, oh * width, ky * p[13] + kx)
        for oy in range(oh):
            row, to = oy * width, (plane * oh + oy) * ow
            corner = (p[11] + oy * sh + p[9]) * p[13] + p[10]
            move(target + 4 * to, source + 4 * row, ow)
            found, places = taps[row : row + ow], words[i + to : i + to + ow]
            for x in range(ow):
                tap = found[x]
                place = np.int32(corner + x * sw) + tap
                places[x] = place if tap >= 0 else tap


@leaf
def max_pool_gradient(diff: Any, d: int, index: Any, i: int, diff_dst: Any, s: int, p: Any) -> None:
    """p as in max_pool; places outside the strip are another strip's."""
    planes, outputs, inputs = p[0], p[1] * p[2], p[3] * p[4]
    words, before = index.view(np.int32), p[11] * p[4]
    clear(diff.ctypes.data + 4 * d, planes * inputs)
    for plane in range(planes):
        image = d + plane * inputs - before
        for x in range(plane * outputs, plane * outputs + outputs):
            place = words[i + x]
            if before <= place < before + inputs:
                diff[image + place] += diff_dst[s + x]


@leaf
def _length(p: Any, axis: int, position: int) -> int:
    """Length of a window, clipped to the padded image."""
    start = position * p[7 + axis] + p[9 + axis]
    if axis == 0:
        start += p[11]
    length: int = min(p[5 + axis], p[12 + axis] + p[14 + axis] - start)
    return length


@leaf
def ave_pool(dst: Any, d: int, src: Any, s: int, p: Any) -> None:
    """p as in max_pool; sums along output rows, then one division an output."""
    planes, oh, ow, rows, cols, kh, kw = p[0], p[1], p[2], p[3], p[4], p[5], p[6]
    total = np.empty(ow, np.float32)
    for plane in range(planes):
        for oy in range(oh):
            total[:] = 0
            y0 = oy * p[7] + p[9]
            for y in range(max(y0, 0), min(y0 + kh, rows)):
                row = s + (plane * rows + y) * cols
                for kx in range(kw):
                    low, high = _span(ow, p[8], kx + p[10], cols)
                    if low == high:
                        continue
                    sums, pixels = total[low:high], src[row + kx + p[10] + low * p[8] :]
                    if p[8] == 2:
                        for x in range(high - low):
                            sums[x] += pixels[2 * x]
                    else:
                        for x in range(high - low):
                            sums[x] += pixels[x * p[8]]
            height, at = _length(p, 0, oy), d + (plane * oh + oy) * ow
            line = dst[at : at + ow]
            for x in range(ow):
                line[x] = np.divide(total[x], np.float32(height * _length(p, 1, x)))


@leaf
def ave_pool_gradient(diff: Any, d: int, diff_dst: Any, s: int, p: Any) -> None:
    """p as in max_pool; every output's share goes to its window."""
    planes, oh, ow, rows, cols, kh, kw = p[0], p[1], p[2], p[3], p[4], p[5], p[6]
    share = np.empty(ow, np.float32)
    clear(diff.ctypes.data + 4 * d, planes * rows * cols)
    for plane in range(planes):
        for oy in range(oh):
            height, at = _length(p, 0, oy), s + (plane * oh + oy) * ow
            for x in range(ow):
                share[x] = np.divide(diff_dst[at + x], np.float32(height * _length(p, 1, x)))
            y0 = oy * p[7] + p[9]
            for y in range(max(y0, 0), min(y0 + kh, rows)):
                row = d + (plane * rows + y) * cols
                for kx in range(kw):
                    low, high = _span(ow, p[8], kx + p[10], cols)
                    if low == high:
                        continue
                    shares, pixels = share[low:high], diff[row + kx + p[10] + low * p[8] :]
                    for x in range(high - low):
                        pixels[x * p[8]] += shares[x]
