"""Caffe's data transformer: crop, mirror, subtract the mean, scale.

output = (input - mean) * scale in float32, written at the mirrored column when the coin says so.
A mean image is indexed at the pixel's place before cropping and mirroring. The coin is tossed in
both phases; crops are random in TRAIN and central in TEST. The random words come from outside
(`draws.item_words`), so that applying is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from swcaffe.arrays import F32, Array, Shape
from swcaffe.data.draws import U64
from swcaffe.errors import ParameterError, ShapeError

__all__ = ["TransformParam", "Transformer"]


class TransformParam(Protocol):
    """The fields of Caffe's TransformationParameter that are read here."""

    @property
    def scale(self) -> float:
        """Factor applied after the mean was subtracted."""

    @property
    def mirror(self) -> bool:
        """Whether a coin decides on mirroring left to right."""

    @property
    def crop_size(self) -> int:
        """Side of the square crop in pixels; 0: none."""

    @property
    def mean_file(self) -> str:
        """Path of a binary BlobProto; empty: none."""

    @property
    def mean_value(self) -> Sequence[float]:
        """No value, one for all channels, or one for each."""


class Transformer:
    """Pixels (c, h, w) -> network input (c, h', w') float32; thread-safe."""

    def __init__(
        self,
        *,
        train: bool,
        scale: float = 1.0,
        mirror: bool = False,
        crop: int = 0,
        mean: F32 | None = None,
        mean_name: str = "mean",
    ) -> None:
        """`mean` is (1, 1, 1), (c, 1, 1), or an image (c, h, w); `mean_name` is for messages."""
        self.train, self.scale, self.mirror, self.crop = train, np.float32(scale), mirror, crop
        self._mean, self._mean_name = mean, mean_name

    @classmethod
    def from_param(
        cls, param: TransformParam, *, train: bool, read_mean: Callable[[str], F32]
    ) -> Transformer:
        """The transformer of a `transform_param`; `read_mean` reads a mean file as (c, h, w).

        Raises ParameterError if both mean_file and mean_value are given.
        """
        mean, name = None, "mean_value"
        if param.mean_file and len(param.mean_value):
            raise ParameterError(
                f'both mean_file "{param.mean_file}" and mean_value are given',
                fix="keep one of them",
            )
        if param.mean_file:
            mean, name = read_mean(param.mean_file), f'mean_file "{param.mean_file}"'
        elif len(param.mean_value):
            mean = np.array(param.mean_value, dtype=np.float32).reshape(-1, 1, 1)
        return cls(
            train=train,
            scale=param.scale,
            mirror=param.mirror,
            crop=int(param.crop_size),
            mean=mean,
            mean_name=name,
        )

    def output_shape(self, shape: Shape) -> Shape:
        """Shape of the output for pixels of `shape`.

        Raises ShapeError if a crop or mean does not fit; the message has both shapes.
        """
        if len(shape) != 3:
            raise ShapeError(
                f"record of shape {shape}, but only (channels, height, width) fits",
                fix="store pictures, or leave transform_param out",
            )
        channels, height, width = shape
        if self._mean is not None:
            self._check_mean(self._mean.shape, shape)
        if not self.crop:
            return shape
        if self.crop > min(height, width):
            raise ShapeError(
                f"crop_size {self.crop} is larger than the image of {height} x {width} (h x w)",
                fix="lower crop_size, or resize the images",
            )
        return (channels, self.crop, self.crop)

    def apply(self, pixels: Array, words: U64, out: F32) -> None:
        """Transform one item into `out`, which has `output_shape(pixels.shape)`.

        `words` (3,): mirror coin, row offset, column offset, each used modulo its range.
        """
        mean = self._mean
        if self.crop:
            top, left = self._offsets(pixels.shape, words)
            window = (slice(None), slice(top, top + self.crop), slice(left, left + self.crop))
            if mean is not None and mean.shape == pixels.shape:
                mean = mean[window]
            pixels = pixels[window]
        if self.mirror and int(words[0]) % 2:
            out = out[:, :, ::-1]
        if mean is None:
            np.copyto(out, pixels)
        else:
            np.subtract(pixels, mean, out=out)
        if self.scale != 1:
            np.multiply(out, self.scale, out=out)

    def _offsets(self, shape: Shape, words: U64) -> tuple[int, int]:
        rows, cols = shape[1] - self.crop, shape[2] - self.crop
        if self.train:
            return int(words[1]) % (rows + 1), int(words[2]) % (cols + 1)
        return rows // 2, cols // 2

    def _check_mean(self, mean: Shape, shape: Shape) -> None:
        if mean[1:] == (1, 1) and mean[0] in (1, shape[0]):
            return
        if mean[1:] == (1, 1) and self._mean_name == "mean_value":
            raise ShapeError(
                f"{mean[0]} values of mean_value for images of {shape[0]} channels",
                fix=f"give mean_value once, or {shape[0]} times",
            )
        if mean != shape:
            raise ShapeError(
                f"{self._mean_name} has shape {mean}, the images have {shape}",
                fix="compute the mean from images of this size, before cropping; or use mean_value",
            )
