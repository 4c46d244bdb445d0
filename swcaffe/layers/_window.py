"""Kernel, stride, pad and dilation of convolutions, one tuple each, from their many spellings."""

from __future__ import annotations

from dataclasses import dataclass

from swcaffe.arrays import Shape
from swcaffe.errors import ParameterError
from swcaffe.proto.messages import Message

__all__ = ["Window", "read_window"]


@dataclass(frozen=True, slots=True)
class Window:
    """How a convolution's kernel lies on its input: one entry per spatial axis."""

    kernel: Shape
    stride: Shape
    pad: Shape
    dilation: Shape


def read_window(param: Message, axes: int) -> Window:
    """The window of a ConvolutionParameter on `axes` spatial axes.

    Raises ParameterError for contradictory spellings, wrong numbers of values, zero sizes.
    """
    return Window(
        kernel=_sizes(param, "kernel", axes, default=None, least=1),
        stride=_sizes(param, "stride", axes, default=1, least=1),
        pad=_sizes(param, "pad", axes, default=0, least=0),
        dilation=_repeated("dilation", list(param.dilation), axes, default=1, least=1),
    )


def _sizes(param: Message, name: str, axes: int, *, default: int | None, least: int) -> Shape:
    """`name` given as name_h and name_w, or as a list for all axes."""
    listed = "kernel_size" if name == "kernel" else name
    values = list(getattr(param, listed))
    if not (param.HasField(f"{name}_h") or param.HasField(f"{name}_w")):
        return _repeated(listed, values, axes, default=default, least=least)
    if values:
        raise ParameterError(
            f"both {listed} and {name}_h or {name}_w are given", fix="keep one of the spellings"
        )
    if axes != 2:
        raise ParameterError(
            f"{name}_h and {name}_w describe two spatial axes, the input has {axes}",
            fix=f"use {listed}, once or {axes} times",
        )
    pair = (getattr(param, f"{name}_h"), getattr(param, f"{name}_w"))
    return _checked(f"{name}_h, {name}_w", pair, least)


def _repeated(name: str, values: list[int], axes: int, *, default: int | None, least: int) -> Shape:
    if not values and default is not None:
        values = [default]
    if len(values) not in {1, axes}:
        given = f"given {len(values)} times" if values else "missing"
        raise ParameterError(f"{name} is {given}", fix=f"give it once, or {axes} times")
    return _checked(name, tuple(values * axes if len(values) == 1 else values), least)


def _checked(name: str, values: Shape, least: int) -> Shape:
    if any(v < least for v in values):
        raise ParameterError(f"{name} is {values}, the least is {least}", fix="raise it")
    return values
