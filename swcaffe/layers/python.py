"""Python."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

from swcaffe.errors import ParameterError, unknown_name
from swcaffe.net.layer import LAYERS, Blobs, Layer, at_least
from swcaffe.proto.messages import Message

__all__ = ["Python", "UserLayer"]


class UserLayer(Protocol):
    """What the class that python_param names must offer; `swcaffe.Layer` is the base that does.

    The four methods of pycaffe take sequences of blobs as `views` makes them.
    """

    def __init__(self, param: Message) -> None:
        """Made with the LayerParameter."""

    def attach(self, layer: Layer) -> None:
        """Take the parameter string, the phase and the list of weights, before `setup`."""

    def views(self, blobs: Blobs) -> Sequence[object]:
        """Blobs as scripts see them."""

    def setup(self, bottom: Sequence[object], top: Sequence[object]) -> None:
        """Read parameters, add weights."""

    def reshape(self, bottom: Sequence[object], top: Sequence[object]) -> None:
        """Shape the tops."""

    def forward(self, bottom: Sequence[object], top: Sequence[object]) -> None:
        """Compute the tops' data."""

    def backward(
        self, top: Sequence[object], propagate_down: list[bool], bottom: Sequence[object]
    ) -> None:
        """Compute the bottoms' diffs."""


METHODS = ("attach", "views", "setup", "reshape", "forward", "backward")


@LAYERS.register("Python")
class Python(Layer):
    """A layer that its user wrote: any number of bottoms and tops, any computation.

    Reads python_param: `module`, looked for as `import` does, `layer`, a class in it, param_str.
    As in Caffe its `reshape` runs before every `forward`. What it raises is not changed.
    """

    bottoms = at_least(0)
    tops = at_least(0)
    in_place = True

    def setup(self, bottoms: Blobs, tops: Blobs) -> None:
        """Make the user's layer and set it up."""
        self._user = self._load()(self.param)
        self._user.attach(self)
        self._views = self._user.views(bottoms), self._user.views(tops)
        self._user.setup(*self._views)

    def _load(self) -> type[UserLayer]:
        """The user's class. Raises ParameterError for a module or class that does not exist."""
        param = self.param.python_param
        if not param.module or not param.layer:
            raise ParameterError(
                "module or layer is missing",
                fix="set both in python_param: a module, and its class",
            )
        try:
            module = importlib.import_module(param.module)
        except ModuleNotFoundError as cause:
            if not f"{param.module}.".startswith(f"{cause.name}."):
                raise  # one that the module itself asks for
            raise ParameterError(
                f"there is no module {param.module!r}",
                fix="put its folder on PYTHONPATH, or run from that folder",
            ) from cause
        classes = {name: thing for name, thing in vars(module).items() if isinstance(thing, type)}
        if param.layer not in classes:
            raise ParameterError(
                unknown_name(f"class of module {param.module}", param.layer, classes),
                fix="give one that is derived from swcaffe.Layer",
            )
        found: type[UserLayer] = classes[param.layer]
        missing = [name for name in METHODS if not callable(getattr(found, name, None))]
        if missing:
            raise ParameterError(
                f"class {param.layer} of module {param.module} has no {', '.join(missing)}",
                fix="derive it from swcaffe.Layer, and write setup, reshape, forward, backward",
            )
        return found

    def reshape(self, bottoms: Blobs, tops: Blobs) -> None:
        """The user's."""
        self._user.reshape(*self._views)

    def forward(self, bottoms: Blobs, tops: Blobs) -> None:
        """The user's."""
        self._user.reshape(*self._views)
        self._user.forward(*self._views)

    def backward(self, tops: Blobs, propagate_down: Sequence[bool], bottoms: Blobs) -> None:
        """The user's."""
        bottom, top = self._views
        self._user.backward(top, list(propagate_down), bottom)
