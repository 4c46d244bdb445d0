"""Reshape."""

from __future__ import annotations

import math

from swcaffe.arrays import Shape
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._view import View
from swcaffe.net.blob import Blob
from swcaffe.net.layer import LAYERS, Blobs

__all__ = ["Reshape"]


@LAYERS.register("Reshape")
class Reshape(View):
    """`num_axes` axes from `axis` on replaced by `shape`.

    A dim of 0 copies the bottom's at the same place, one -1 is inferred, others are literal.
    Reads reshape_param.
    """

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Check the dims."""
        dims = list(self.param.reshape_param.shape.dim)
        if dims.count(-1) > 1 or min(dims, default=0) < -1:
            raise ParameterError(
                f"shape {dims} may have one -1 and no other negative dim",
                fix="keep one -1, which is worked out from the rest",
            )
        if self.param.reshape_param.num_axes < -1:
            raise ParameterError(
                "num_axes must be -1 (to the end) or not negative", fix="correct num_axes"
            )

    def top_shape(self, bottom: Blob) -> Shape:
        """Axes before, the new dims, axes behind."""
        param = self.param.reshape_param
        dims, ndim = list(param.shape.dim), len(bottom.shape)
        start = param.axis if param.axis >= 0 else ndim + param.axis + 1
        end = ndim if param.num_axes == -1 else start + param.num_axes
        if not 0 <= start <= end <= ndim:
            raise ShapeError(
                f"axis {param.axis} and num_axes {param.num_axes} do not fit bottom {bottom!r}",
                fix="choose an axis of the bottom, and as many axes as follow it",
            )
        for i, dim in enumerate(dims):
            if dim == 0:
                if start + i >= ndim:
                    raise ShapeError(
                        f"dim {i} copies an axis that bottom {bottom!r} has not",
                        fix="write the size itself instead of 0",
                    )
                dims[i] = bottom.shape[start + i]
        whole = bottom.size(start, end)
        known = math.prod(dim for dim in dims if dim != -1)
        if -1 in dims and known and whole % known == 0:
            dims[dims.index(-1)] = whole // known
        if math.prod(dims) != whole or -1 in dims:
            raise ShapeError(
                f"{whole} values of bottom {bottom!r} from axis {start} on cannot take the shape "
                f"{list(param.shape.dim)}",
                fix="give dims whose product is the count",
            )
        return (*bottom.shape[:start], *dims, *bottom.shape[end:])
