"""What Scale and Bias share: a smaller blob laid over some axes of a larger one."""

from __future__ import annotations

from swcaffe.arrays import Shape
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.net.blob import Blob

__all__ = ["broadcast_view", "parameter_shape"]


def parameter_shape(bottom: Blob, axis: int, num_axes: int) -> Shape:
    """`num_axes` axes of `bottom` from `axis` on; -1 stands for all of them, 0 for a scalar."""
    start = bottom.axis(axis)
    if num_axes < -1 or start + num_axes > len(bottom.shape):
        raise ParameterError(
            f"axis {axis} and num_axes {num_axes} do not fit bottom {bottom!r}",
            fix="choose an axis of the bottom, and as many axes as follow it",
        )
    return bottom.shape[start:] if num_axes == -1 else bottom.shape[start : start + num_axes]


def broadcast_view(bottom: Blob, axis: int, shape: Shape) -> tuple[int, int, int]:
    """`bottom` as (outer, channels, inner), where channels are the elements of `shape`.

    A scalar fits at any axis. Raises ShapeError unless `shape` equals the axes from `axis` on.
    """
    start = bottom.axis(axis) if shape else 0
    end = start + len(shape)
    if bottom.shape[start:end] != shape:
        raise ShapeError(
            f"a blob of shape {shape} does not fit bottom {bottom!r} from axis {axis} on",
            fix="set axis to where the shapes agree",
        )
    return bottom.size(0, start), bottom.size(start, end), bottom.size(end)
