"""Literals of a prototxt to Python values, by the type of the field that they are written for."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from difflib import get_close_matches
from typing import TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from swcaffe.proto.messages import Field
from swcaffe.proto.tokens import Kind

__all__ = ["BadLiteral", "Scalar", "read_scalar", "wants_string"]

Scalar: TypeAlias = int | float | bool | str | bytes

_INTEGER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")
_BOOLEANS = {"true": True, "True": True, "t": True, "false": False, "False": False, "f": False}
_LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1, "int32"),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1, "uint32"),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1, "int64"),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1, "uint64"),
}
_FLOAT_MAX = 3.4028235677973366e38
"""Half a step above the largest float32: from here on, rounding gives infinity."""


class BadLiteral(Exception):  # noqa: N818  (becomes one line of a PrototxtError, never seen by users)
    """A literal that does not fit its field; the text says why."""


def wants_string(field: Field) -> bool:
    """Whether a field's values are written in quotes."""
    return bool(field.cpp_type == FieldDescriptor.CPPTYPE_STRING)


def read_scalar(field: Field, kind: Kind, text: str, negative: bool) -> Scalar:
    """The value of a name or number for a field that is no string and no message.

    `negative` tells whether a minus sign stood before it. Raises BadLiteral.
    """
    return _READERS[field.cpp_type](field, kind, text, negative)


def _integer(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if len(text) > 1 and text[0] == "0":
        try:
            return int(text, 8)
        except ValueError:
            raise BadLiteral(
                f"{text} begins with 0, so it is octal, but has other digits"
            ) from None
    return int(text)


def _read_integer(field: Field, kind: Kind, text: str, negative: bool) -> int:
    low, high, type_name = _LIMITS[field.cpp_type]
    if kind != "number" or not _INTEGER.fullmatch(text):
        raise BadLiteral(f"{field.name} takes a whole number, not {'-' * negative}{text}")
    value = -_integer(text) if negative else _integer(text)
    if not low <= value <= high:
        raise BadLiteral(f"{field.name} is {value}, outside {low} to {high} ({type_name})")
    return value


def _read_real(field: Field, kind: Kind, text: str, negative: bool) -> float:
    if kind == "name":
        if text.lower() not in ("inf", "infinity", "nan"):
            raise BadLiteral(f"{field.name} takes a number, not {text}")
        value = float(text)
    elif _INTEGER.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise BadLiteral(f"{field.name} takes a decimal number, not {text}")
        value = float(int(text))
    else:
        value = float(text.rstrip("fF"))
    single = field.cpp_type != FieldDescriptor.CPPTYPE_DOUBLE
    if kind == "number" and value >= (_FLOAT_MAX if single else math.inf):
        raise BadLiteral(f"{field.name} is {text}, too large for its type")
    if single:  # rounded here, as protobuf's releases do not agree about the largest number
        (value,) = struct.unpack("<f", struct.pack("<f", value))
    return -value if negative else value


def _read_bool(field: Field, kind: Kind, text: str, negative: bool) -> bool:
    if not negative:
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if _INTEGER.fullmatch(text) and _integer(text) in (0, 1):
            return bool(_integer(text))
    raise BadLiteral(f"{field.name} takes true or false, not {'-' * negative}{text}")


def _read_enum(field: Field, kind: Kind, text: str, negative: bool) -> int:
    enum = field.enum_type
    if kind == "number" and _INTEGER.fullmatch(text):
        number = -_integer(text) if negative else _integer(text)
        if number in enum.values_by_number:
            return number
    elif not negative and text in enum.values_by_name:
        return int(enum.values_by_name[text].number)
    names = list(enum.values_by_name)
    near = get_close_matches(text.upper(), names, n=3, cutoff=0.6)
    choice = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    raise BadLiteral(f"{field.name} has no value {'-' * negative}{text} ({choice})")


_READERS: dict[int, Callable[[Field, Kind, str, bool], Scalar]] = {
    **dict.fromkeys(_LIMITS, _read_integer),
    FieldDescriptor.CPPTYPE_FLOAT: _read_real,
    FieldDescriptor.CPPTYPE_DOUBLE: _read_real,
    FieldDescriptor.CPPTYPE_BOOL: _read_bool,
    FieldDescriptor.CPPTYPE_ENUM: _read_enum,
}
