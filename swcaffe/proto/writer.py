"""Messages to prototxt, in the layout of protobuf's own printer."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor

from swcaffe.proto.messages import Field, Message, is_repeated
from swcaffe.proto.scalars import Scalar

__all__ = ["write"]

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'", "\\": "\\\\"}


def write(message: Message) -> str:
    """The prototxt of a message: one field a line in order of number, two blanks a level.

    Numbers are the shortest that read back as the same float32; letters beyond ASCII stay as they
    are. Reading the text gives an equal message.
    """
    return "".join(line + "\n" for line in _lines(message, ""))


def _lines(message: Message, indent: str) -> Iterator[str]:
    for field, content in message.ListFields():
        for value in content if is_repeated(field) else (content,):
            if field.message_type is None:
                yield f"{indent}{field.name}: {_literal(field, value)}"
            else:
                yield f"{indent}{field.name} {{"
                yield from _lines(value, indent + "  ")
                yield f"{indent}}}"


def _literal(field: Field, value: Scalar) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(_character(sign) for sign in value)}"'
    if isinstance(value, bytes):
        return f'"{"".join(_byte(value))}"'
    if isinstance(value, float):
        return _real(value, single=field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT)
    return str(value)


def _character(sign: str) -> str:
    if sign in _ESCAPES:
        return _ESCAPES[sign]
    return sign if sign.isprintable() else "".join(f"\\{b:03o}" for b in sign.encode())


def _byte(value: bytes) -> Iterator[str]:
    for number in value:
        sign = chr(number)
        if sign in _ESCAPES:
            yield _ESCAPES[sign]
        else:
            yield sign if 32 <= number < 127 else f"\\{number:03o}"


_FLOAT_MAX = 3.4028234663852886e38


def _real(value: float, *, single: bool) -> str:
    """The fewest digits, from six (double: fifteen) on, that give the value back."""
    if not math.isfinite(value):
        return str(value)
    if single and abs(value) == _FLOAT_MAX:
        return repr(value)  # fewer digits round up, which some readers take for infinity
    for digits in range(6, 9) if single else range(15, 17):
        text = f"{value:.{digits}g}"
        back = float(text)
        if (_float32(back) if single else back) == value:
            return text
    return f"{value:.{9 if single else 17}g}"


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.inf
