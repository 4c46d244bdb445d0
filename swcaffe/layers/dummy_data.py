"""DummyData."""

from __future__ import annotations

from collections.abc import Sequence

from swcaffe.arrays import Shape
from swcaffe.errors import ParameterError
from swcaffe.net.filler import constant, fill
from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least, exactly

__all__ = ["DummyData"]

LEGACY = ("num", "channels", "height", "width")


@LAYERS.register("DummyData")
class DummyData(Layer):
    """Tops made by fillers: constants once, all others anew at every forward.

    Reads dummy_data_param: `shape` (or num, channels, height, width) and `data_filler`, each once
    for all tops or once per top; without a filler tops are 0.
    """

    bottoms = exactly(0)
    tops = at_least(1)

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Shape the tops, fill the constant ones."""
        param, count = self.param.dummy_data_param, len(tops)
        fillers = list(param.data_filler) or [constant(0)]
        if len(fillers) not in {1, count}:
            raise ParameterError(
                f"{len(fillers)} data_filler entries for {count} tops",
                fix="give one, or one per top",
            )
        self.fillers = fillers * count if len(fillers) == 1 else fillers
        for top, shape in zip(tops, self._shapes(count), strict=True):
            top.reshape(shape)
        for i, (top, filler) in enumerate(zip(tops, self.fillers, strict=True)):
            if filler.type == "constant":
                fill(filler, top.data, self.rng(f"filler/{i}"))

    def _shapes(self, count: int) -> list[Shape]:
        param = self.param.dummy_data_param
        legacy = {name: list(getattr(param, name)) for name in LEGACY}
        if param.shape and any(legacy.values()):
            raise ParameterError("both shape and num, channels … are given", fix="keep shape")
        if param.shape:
            shapes = [tuple(shape.dim) for shape in param.shape]
            if len(shapes) not in {1, count}:
                raise ParameterError(
                    f"{len(shapes)} shapes for {count} tops",
                    fix="give one shape, or one for each top",
                )
            return shapes * count if len(shapes) == 1 else shapes
        for name, sizes in legacy.items():
            if len(sizes) not in {1, count}:
                raise ParameterError(
                    f"{name} is given {len(sizes)} times for {count} tops",
                    fix="give shape, once or once per top",
                )
        columns = [sizes * count if len(sizes) == 1 else sizes for sizes in legacy.values()]
        return list(zip(*columns, strict=True))

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """Nothing: shapes are fixed."""

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """Fill what is not constant."""
        for i, (top, filler) in enumerate(zip(tops, self.fillers, strict=True)):
            if filler.type != "constant":
                fill(filler, top.data, self.rng(f"filler/{i}"))

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """Nothing to propagate to."""
