"""Message classes of proto/caffe.proto and proto/swcaffe.proto, made from schema.desc at import.

The classes live in a descriptor pool of our own. There is no generated code that one protobuf
release writes and another refuses, and no clash with a package that has registered its own
`caffe.proto` in the common pool. Names are those of the schema: `messages.NetParameter`,
`messages.Phase`, `messages.TRAIN`; nested enums are reached through their message:
`messages.PoolingParameter.MAX`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import DecodeError

__all__ = ["DecodeError", "Field", "Message", "MessageClass", "is_repeated", "names"]

Message: TypeAlias = Any
"""A message of the schema: its attributes are made at run time, so no type checker knows them."""

MessageClass: TypeAlias = Any
"""The class of a `Message`, or an enum (`messages.Phase`) or enum value (`messages.TRAIN`)."""

Field: TypeAlias = Any
"""A field's descriptor (google.protobuf.descriptor.FieldDescriptor, which has no type stubs)."""


def _class_maker(pool: DescriptorPool) -> Callable[[Any], MessageClass]:
    """Descriptor -> class; protobuf renamed the call in 4.22 and dropped the old one in 5."""
    if hasattr(message_factory, "GetMessageClass"):
        make: Callable[[Any], MessageClass] = message_factory.GetMessageClass
    else:
        make = message_factory.MessageFactory(pool).GetPrototype
    return make


def _load() -> dict[str, MessageClass]:
    (schema,) = FileDescriptorSet.FromString(
        Path(__file__).with_name("schema.desc").read_bytes()
    ).file
    pool = DescriptorPool()
    pool.AddSerializedFile(schema.SerializeToString())
    file = pool.FindFileByName(schema.name)
    make = _class_maker(pool)
    found = {name: make(message) for name, message in file.message_types_by_name.items()}
    for name, enum in file.enum_types_by_name.items():
        found[name] = EnumTypeWrapper(enum)
        found.update({value.name: value.number for value in enum.values})
    return found


_SCHEMA = _load()
globals().update(_SCHEMA)


def is_repeated(field: Field) -> bool:
    """Whether a field is a list; `label`, the only way before protobuf 6, is gone from 7."""
    known = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if known is None else known)


def names() -> list[str]:
    """Every name of the schema's top level: messages, enums and enum values."""
    return sorted(_SCHEMA)


def __getattr__(name: str) -> MessageClass:
    """Tell type checkers that the schema's names exist; at run time they are found before this."""
    raise AttributeError(f"module {__name__!r} has no message or enum {name!r}")
