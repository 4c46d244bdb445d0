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

__all__ = ["Definition", "Removed", "definition_of", "merged_state", "read_definition"]


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


def merged_state(*states: Message) -> Message:
    """A NetState: later phases and levels replace earlier ones where set, stages are appended."""
    state = messages.NetState()
    for other in states:
        state.MergeFrom(other)
    return state


def definition_of(net: Message, state: Message, parsed: Parsed | None = None) -> Definition:
    """The definition in an upgraded NetParameter, to be judged by `state`.

    parsed, the reader's result that `net` came from, gives the places.
    """
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
    """Read, upgrade and take apart a net prototxt. Raises PrototxtError.

    phase and level replace those of the file's own state; stages are appended to its stages.
    """
    parsed = read_net(Path(path), lenient=lenient)
    asked = messages.NetState(phase=int(phase), level=level, stage=stages)
    return definition_of(parsed.message, merged_state(parsed.message.state, asked), parsed)
