"""Parameters of a net: owners and sharers, learning-rate and decay multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from swcaffe.errors import NetError, ParameterError, ShapeError
from swcaffe.net.blob import Blob
from swcaffe.net.layer import Layer
from swcaffe.proto import messages
from swcaffe.proto.messages import Message

__all__ = ["Param", "collect_params", "spec_of"]


@dataclass
class Param:
    """One parameter blob of one layer.

    owner       the Param whose memory this one uses; itself if it is the first of its name
    lr_mult, decay_mult   on the owner: the multipliers the solver uses
    """

    layer: Layer
    index: int
    blob: Blob
    name: str
    lr_mult: float = 1.0
    decay_mult: float = 1.0
    owner: Param = field(init=False, repr=False)
    _explicit: dict[str, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Own oneself until shared."""
        self.owner = self

    @property
    def is_owner(self) -> bool:
        """Whether the solver updates this one."""
        return self.owner is self

    @property
    def display_name(self) -> str:
        """The name given in the prototxt, or the index."""
        return self.name or str(self.index)


def spec_of(layer_param: Message, index: int) -> Message:
    """The ParamSpec of blob `index`: given, or the defaults."""
    if index < len(layer_param.param):
        return layer_param.param[index]
    return messages.ParamSpec()


def _adopt(owner: Param, spec: Message, sharer: str) -> None:
    """Take over multipliers that a sharer states and the owner does not; they must not disagree."""
    for key in ("lr_mult", "decay_mult"):
        if not spec.HasField(key):
            continue
        value = getattr(spec, key)
        known = owner._explicit.setdefault(key, value)
        if known != value:
            raise ParameterError(
                f'shared parameter "{owner.name}" has {key} {known:g} in layer '
                f'"{owner.layer.name}" and {value:g} in layer "{sharer}"',
                fix="give one value",
            )
        setattr(owner, key, value)


def _share(param: Param, owner: Param, spec: Message) -> None:
    permissive = spec.share_mode == messages.ParamSpec.PERMISSIVE
    mine, theirs = param.blob, owner.blob
    fits = mine.count == theirs.count if permissive else mine.shape == theirs.shape
    if not fits:
        raise ShapeError(
            f'parameter "{param.name}" is {theirs.shape} in its owner, layer "{owner.layer.name}", '
            f'and {mine.shape} in layer "{param.layer.name}"',
            fix="make the layers alike"
            if permissive or mine.count != theirs.count
            else "or set share_mode: PERMISSIVE, as the counts are equal",
        )
    param.owner = owner
    mine.share(theirs)


def collect_params(layers: Sequence[Layer]) -> list[Param]:
    """Every parameter in order, with shared ones tied to their owner (memory included).

    Raises NetError for more ParamSpecs than blobs, ShapeError and ParameterError for sharers that
    do not agree with the owner.
    """
    params: list[Param] = []
    owners: dict[str, Param] = {}
    for layer in layers:
        if len(layer.param.param) > len(layer.blobs):
            raise NetError(
                f'layer "{layer.name}" ({layer.type}) has {len(layer.param.param)} param entries '
                f"but {len(layer.blobs)} parameter blobs",
                fix="remove the surplus entries (is bias_term false?)",
            )
        for index, blob in enumerate(layer.blobs):
            spec = spec_of(layer.param, index)
            param = Param(layer, index, blob, spec.name)
            owner = owners.get(spec.name) if spec.name else None
            if owner is None:
                _adopt(param, spec, layer.name)
                if spec.name:
                    owners[spec.name] = param
            else:
                _share(param, owner, spec)
                _adopt(owner, spec, layer.name)
            params.append(param)
    return params
