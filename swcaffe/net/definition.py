"""A net's definition on its way to being built: layers with the place each was written at.

Every step from the parsed text to the wired net is a pure function `Definition -> Definition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from swcaffe.net.layer import Phase
from swcaffe.proto import messages
from swcaffe.proto.messages import Message
from swcaffe.proto.prototxt import Parsed, read_net
from swcaffe.proto.upgrade import upgrade_net

__all__ = ["Definition", "Removed", "definition_of", "read_definition"]


@dataclass(frozen=True, slots=True)
class Removed:
    """A layer that a phase, level or stage rule took out, kept for messages about what it made."""

    name: str
    where: str
    tops: tuple[str, ...]
    rule: str


@dataclass(frozen=True, slots=True)
class Definition:
    """Layers (LayerParameter messages, never changed in place) with their places.

    where    "file:line" of each layer; Split layers have that of the blob's producer
    state    the NetState that rules are judged by
    """

    name: str
    layers: tuple[Message, ...]
    where: tuple[str, ...]
    state: Message
    force_backward: bool = False
    debug_info: bool = False
    removed: tuple[Removed, ...] = field(default=())

    @property
    def phase(self) -> Phase:
        """Phase of the net."""
        return Phase(self.state.phase)


def definition_of(
    net: Message,
    *,
    phase: Phase | None = None,
    level: int | None = None,
    stages: Sequence[str] = (),
    parsed: Parsed | None = None,
) -> Definition:
    """The definition in an upgraded NetParameter.

    phase and level, if given, replace those of the net's own state; stages are appended to its.
    parsed, the reader's result that `net` came from, gives the places.
    """
    state = messages.NetState()
    state.CopyFrom(net.state)
    if phase is not None:
        state.phase = int(phase)
    if level is not None:
        state.level = level
    state.stage.extend(stages)
    places = [
        parsed.source_map.where(("layer", i)) if parsed else f'layer "{layer.name}"'
        for i, layer in enumerate(net.layer)
    ]
    return Definition(
        net.name, tuple(net.layer), tuple(places), state, net.force_backward, net.debug_info
    )


def read_definition(
    path: str | Path,
    phase: Phase,
    *,
    level: int = 0,
    stages: Sequence[str] = (),
    lenient: bool = False,
) -> Definition:
    """Read, upgrade and take apart a net prototxt. Raises PrototxtError."""
    parsed = read_net(Path(path), lenient=lenient)
    return definition_of(parsed.message, phase=phase, level=level, stages=stages, parsed=parsed)


def upgraded(net: Message) -> Message:
    """A NetParameter made in memory, upgraded as one read from a file would be."""
    return upgrade_net(net)
