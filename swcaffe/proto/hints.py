"""What to say about a field or value that the schema does not have: spelling, place, fork."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, TypeAlias

from swcaffe.proto.forks import fork_of
from swcaffe.proto.layer_types import V1_TYPES
from swcaffe.proto.messages import Field, is_repeated

__all__ = ["about_bare_word", "about_string", "about_unknown_field"]

_LONGEST_LIST = 16

Descriptor: TypeAlias = Any
"""A message's descriptor (google.protobuf.descriptor.Descriptor, which has no type stubs)."""


def about_unknown_field(message: Descriptor, name: str) -> str:
    """The error for a field `name` that this type of message does not have, with all we know."""
    text = f"{message.name} has no field {name!r}"
    hints = []
    fork = fork_of(message.name, name)
    if fork:
        hints.append(f"it is a field of {fork}")
    owners = [
        field.name
        for field in message.fields
        if field.message_type is not None
        and not is_repeated(field)
        and name in field.message_type.fields_by_name
    ]
    if owners and not fork:
        hints.append(f"it belongs inside {', '.join(owners)}")
    known = [field.name for field in message.fields]
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.7)
    if near and not fork:
        hints.append(f"did you mean {' or '.join(near)}?")
    if not hints and len(known) <= _LONGEST_LIST:
        hints.append(f"it has {', '.join(known)}")
    return f"{text} ({'; '.join(hints)})" if hints else text


def about_string(field: Field, literal: str) -> str:
    """The error for a string written where `field` takes none."""
    if field.containing_type.name == "V1LayerParameter" and field.name == "type":
        current = literal[1:-1]
        old = next((old for old, new in V1_TYPES.items() if new == current), "")
        return (
            f"type: {literal} is of the current format, but 'layers' is of the old one; either "
            f"rename every 'layers' to 'layer' and write all types as strings, or write "
            f"{f'type: {old}' if old else 'a type'} without quotes"
        )
    if field.enum_type is not None:
        return f"{field.name} takes a name without quotes, not {literal}"
    return f"{field.name} takes a plain value without quotes, not {literal}"


def about_bare_word(field: Field, word: str) -> str:
    """The error for a word without quotes where `field` takes a string."""
    if field.containing_type.name == "LayerParameter" and field.name == "type":
        word = V1_TYPES.get(word, word)
    return f'{field.name} takes a string in quotes: "{word}"'
