"""Array type names used in signatures, and aligned allocation."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "ALIGNMENT_BYTES",
    "F32",
    "F64",
    "I32",
    "I64",
    "U8",
    "Array",
    "Shape",
    "aligned_zeros",
    "shape_text",
]

Array: TypeAlias = NDArray[Any]
F32: TypeAlias = NDArray[np.float32]
F64: TypeAlias = NDArray[np.float64]
I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]
U8: TypeAlias = NDArray[np.uint8]
Shape: TypeAlias = tuple[int, ...]

ALIGNMENT_BYTES = 128
"""One memory transaction of the SW26010; two cache lines of a common host."""


def aligned_zeros(shape: Shape, dtype: DTypeLike = np.float32) -> Array:
    """A zeroed C-contiguous array whose first byte lies on a 128-byte boundary."""
    item = np.dtype(dtype)
    nbytes = math.prod(shape) * item.itemsize
    raw = np.zeros(nbytes + ALIGNMENT_BYTES, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[start : start + nbytes].view(item).reshape(shape)


def shape_text(shape: Shape) -> str:
    """Caffe's log form of a shape: `64 10 (640)`; `(1)` for a scalar."""
    dims = "".join(f"{d} " for d in shape)
    return f"{dims}({math.prod(shape)})"
