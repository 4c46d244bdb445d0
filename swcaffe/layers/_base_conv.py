"""What Convolution and Deconvolution share: parameters, weights, checks, top shapes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from swcaffe.arrays import F32, Shape
from swcaffe.errors import ParameterError, ShapeError
from swcaffe.layers._weights import WeightedLayer
from swcaffe.layers._window import read_window
from swcaffe.net.layer import Blobs, at_least
from swcaffe.operators.convolution import ConvGeometry

__all__ = ["BaseConvolution"]


class BaseConvolution(WeightedLayer):
    """One set of weights applied to each bottom; all bottoms have one shape.

    Axes before `axis` are batch axes, those after it spatial ones, in any number.
    """

    bottoms = at_least(1)
    tops = at_least(1)
    equal_bottoms_and_tops = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Read convolution_param, check it against the channels, make weights and bias."""
        param = self.param.convolution_param
        first = bottoms[0]
        self.axis = first.axis(param.axis)
        self.axes = len(first.shape)
        self.window = read_window(param, self.axes - self.axis - 1)
        self.channels = first.shape[self.axis]
        self.num_output: int = param.num_output
        self.group: int = param.group
        self.has_bias: bool = param.bias_term
        self._check_counts()
        shapes: list[Shape] = [self.weight_shape()]
        if self.has_bias:
            shapes.append((self.num_output,))
        fillers = [param.weight_filler, param.bias_filler]
        self.make_blobs(shapes, fillers[: len(shapes)])

    @abstractmethod
    def weight_shape(self) -> Shape:
        """Shape of the weights."""

    @abstractmethod
    def geometry(self, n: int, size: Shape) -> ConvGeometry:
        """The convolution behind bottoms of `n` images and spatial `size`."""

    @abstractmethod
    def out_size(self, geometry: ConvGeometry) -> Shape:
        """Spatial size of the tops."""

    @abstractmethod
    def make_plans(self, geometry: ConvGeometry) -> None:
        """Plan the operators for one bottom."""

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Set the tops' shapes; batch and spatial sizes may change, channels may not."""
        shape = bottoms[0].shape
        if len(shape) != self.axes or shape[self.axis] != self.channels:
            raise ShapeError(
                f"bottom {bottoms[0]!r} does not fit weights made for {self.channels} channels "
                f"on axis {self.axis} of {self.axes}",
                fix="keep the number of channels and axes fixed",
            )
        if any(b.shape != shape for b in bottoms):
            raise ShapeError(
                f"bottoms differ in shape: {', '.join(map(repr, bottoms))}",
                fix="feed bottoms of one shape",
            )
        geometry = self.geometry(bottoms[0].size(0, self.axis), shape[self.axis + 1 :])
        out = self.out_size(geometry)
        if any(size < 1 for size in out):
            raise ShapeError(
                f"kernel {self.window.kernel} with dilation {self.window.dilation}, pad "
                f"{self.window.pad} and stride {self.window.stride} leaves {out} of bottom "
                f"{bottoms[0]!r}",
                fix="lower kernel_size or dilation, raise pad, or feed larger images",
            )
        for top in tops:
            top.reshape((*shape[: self.axis], self.num_output, *out))
        self.make_plans(geometry)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Add to the weights' gradients, overwrite the bottoms'."""
        for top, bottom, wanted in zip(tops, bottoms, propagate_down, strict=True):
            self.backward_one(top.diff, bottom.data, bottom.diff if wanted else None)

    @abstractmethod
    def backward_one(self, diff_top: F32, bottom: F32, diff_bottom: F32 | None) -> None:
        """Gradients from one top."""

    def _check_counts(self) -> None:
        if self.num_output < 1:
            raise ParameterError(
                "num_output is missing or 0", fix="set num_output in convolution_param"
            )
        for name, count in (("channels", self.channels), ("num_output", self.num_output)):
            if self.group < 1 or count % self.group:
                raise ParameterError(
                    f"{name} {count} is not a multiple of group {self.group}",
                    fix="make both channels and num_output multiples of group",
                )
