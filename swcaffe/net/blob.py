"""Blob: a named array with its gradient, float32, allocated when first touched."""

from __future__ import annotations

import math

import numpy as np

from swcaffe.arrays import F32, Shape, aligned_zeros, shape_text
from swcaffe.errors import ShapeError

__all__ = ["MAX_COUNT", "Blob"]

MAX_COUNT = 2**31 - 1
"""Caffe's limit on the elements of one blob (its sizes are 32-bit ints)."""

MAX_AXES = 32


class _Store:
    """Flat memory that blobs may share; grows, never shrinks."""

    __slots__ = ("flat",)

    def __init__(self) -> None:
        self.flat: F32 | None = None

    def view(self, shape: Shape) -> F32:
        """The first elements as an array of `shape`; new zeroed memory if there are too few."""
        count = math.prod(shape)
        if self.flat is None or self.flat.size < count:
            self.flat = aligned_zeros((count,))
        return self.flat[:count].reshape(shape)


class Blob:
    """shape, `data` and `diff`; both C-contiguous float32 views of shared-able memory.

    Reshaping to a smaller or equal count keeps the memory and its values, as in Caffe; after a
    reshape take new views. Layers that only rename axes share memory with `share`.
    """

    __slots__ = ("_data", "_data_view", "_diff", "_diff_view", "name", "shape")

    def __init__(self, shape: Shape = (), name: str = "") -> None:
        """Zeros of `shape`, not yet allocated."""
        self.name = name
        self.shape: Shape = ()
        self._data, self._diff = _Store(), _Store()
        self._data_view: F32 | None = None
        self._diff_view: F32 | None = None
        self.reshape(shape)

    def __repr__(self) -> str:
        """`"conv1" (64, 20, 24, 24)`."""
        return f'"{self.name}" {self.shape}'

    @property
    def data(self) -> F32:
        """Values."""
        if self._data_view is None:
            self._data_view = self._data.view(self.shape)
        return self._data_view

    @property
    def diff(self) -> F32:
        """Gradient."""
        if self._diff_view is None:
            self._diff_view = self._diff.view(self.shape)
        return self._diff_view

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def reshape(self, shape: Shape) -> None:
        """Change the shape; raises ShapeError beyond Caffe's limits or for negative sizes."""
        shape = tuple(int(d) for d in shape)
        if len(shape) > MAX_AXES:
            raise ShapeError(
                f'blob "{self.name}": {len(shape)} axes, the limit is {MAX_AXES}',
                fix="drop axes of size 1",
            )
        if any(d < 0 for d in shape):
            raise ShapeError(
                f'blob "{self.name}": negative size in shape {shape}', fix="give sizes of 0 or more"
            )
        if math.prod(shape) > MAX_COUNT:
            raise ShapeError(
                f'blob "{self.name}": shape {shape} has {math.prod(shape):,} elements, '
                f"the limit is {MAX_COUNT:,}",
                fix="lower the batch size or the image size",
            )
        if shape != self.shape:
            self.shape = shape
            self._data_view = self._diff_view = None

    def axis(self, axis: int, *, end: bool = False) -> int:
        """`axis` counted from the front; negative ones count from the back.

        end  allow the position behind the last axis. Raises ShapeError out of range.
        """
        ndim = len(self.shape)
        if not -ndim <= axis < ndim + end:
            raise ShapeError(
                f"axis {axis} is out of range for blob {self!r} with {ndim} axes",
                fix="choose an axis of the blob; negative ones count from the end",
            )
        return axis + ndim if axis < 0 else axis

    def size(self, start: int = 0, stop: int | None = None) -> int:
        """Product of the sizes of axes `start` … `stop` - 1 (to the last by default)."""
        return math.prod(self.shape[start:stop])

    def share_data(self, other: Blob) -> None:
        """Use `other`'s values from now on; counts must be equal."""
        self._check_count(other)
        self._data, self._data_view = other._data, None

    def share_diff(self, other: Blob) -> None:
        """Use `other`'s gradient from now on; counts must be equal."""
        self._check_count(other)
        self._diff, self._diff_view = other._diff, None

    def share(self, other: Blob) -> None:
        """Share values and gradient."""
        self.share_data(other)
        self.share_diff(other)

    @property
    def memory(self) -> tuple[int, int]:
        """Identities of the memory of values and of the gradient, allocated yet or not."""
        return id(self._data), id(self._diff)

    def shares_data_with(self, other: Blob) -> bool:
        """Whether both blobs have one memory for their values."""
        return self._data is other._data

    def _check_count(self, other: Blob) -> None:
        if self.count != other.count:
            raise ShapeError(
                f"blob {self!r} cannot share the memory of {other!r}: counts differ",
                fix="share between blobs of one count",
            )

    def shape_text(self) -> str:
        """Caffe's log form: `64 10 (640)`."""
        return shape_text(self.shape)

    def mean_abs_data(self) -> float:
        """Mean absolute value, as debug_info prints it."""
        return float(np.abs(self.data).mean(dtype=np.float64)) if self.count else 0.0

    def mean_abs_diff(self) -> float:
        """Mean absolute gradient."""
        return float(np.abs(self.diff).mean(dtype=np.float64)) if self.count else 0.0
