"""Blobs as pycaffe shows them."""

from __future__ import annotations

from swcaffe.arrays import F32, Shape
from swcaffe.errors import ShapeError
from swcaffe.net.blob import Blob

__all__ = ["PyBlob"]


class PyBlob:
    """A view of a blob: `data` and `diff` are arrays that share its memory."""

    __slots__ = ("_blob",)

    def __init__(self, blob: Blob) -> None:
        """Wrap a blob."""
        self._blob = blob

    @property
    def data(self) -> F32:
        """Values; a view, so assign with `[...]`."""
        return self._blob.data

    @property
    def diff(self) -> F32:
        """Gradient; a view."""
        return self._blob.diff

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""
        return self._blob.shape

    @property
    def count(self) -> int:
        """Number of elements."""
        return self._blob.count

    def _legacy(self, axis: int) -> int:
        shape = self._blob.shape
        if len(shape) > 4:
            raise ShapeError(f"blob {self._blob!r} has more than 4 axes", fix="use shape")
        return shape[axis] if axis < len(shape) else 1

    @property
    def num(self) -> int:
        """Size of axis 0 (1 if there is none)."""
        return self._legacy(0)

    @property
    def channels(self) -> int:
        """Size of axis 1 (1 if there is none)."""
        return self._legacy(1)

    @property
    def height(self) -> int:
        """Size of axis 2 (1 if there is none)."""
        return self._legacy(2)

    @property
    def width(self) -> int:
        """Size of axis 3 (1 if there is none)."""
        return self._legacy(3)

    def reshape(self, *shape: int) -> None:
        """Change the shape; take `data` anew afterwards."""
        self._blob.reshape(shape)

    def __repr__(self) -> str:
        """Name and shape."""
        return f"<Blob {self._blob!r}>"
