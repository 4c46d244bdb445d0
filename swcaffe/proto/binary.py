"""Binary messages in files (weights, solver states, means), and their arrays at memory speed.

protobuf's Python lists give numbers one object at a time. An array goes in and out through the wire
format instead, where a packed list is the array's own bytes: to read, the message is serialized and
its fields are walked; to write, the field is put together and merged in. Both are copies of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError

from swcaffe.arrays import F32, Array, Shape
from swcaffe.errors import PrototxtError, SwcaffeError, WeightsError
from swcaffe.files import write_atomically
from swcaffe.proto import messages
from swcaffe.proto.messages import Message, MessageClass
from swcaffe.proto.upgrade import upgrade_net

__all__ = ["array_to_blob", "blob_shape", "blob_to_array", "read", "read_net_binary", "write"]

LIMIT_BYTES = 2**31 - 1
"""The largest message that protobuf reads or writes."""

_LEGACY_DIMS = ("num", "channels", "height", "width")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_RAW_TYPES = {"DOUBLE": "<f8", "FLOAT": "<f4", "FLOAT16": "<f2", "INT": "<i4", "UINT": "<u4"}
_SIGNATURES = {
    b"\x89HDF\r\n\x1a\n": "it is an HDF5 file; give it a name that ends in .h5",
    b"version https://git-lfs": "it is a Git LFS pointer; fetch the file that it stands for",
}


def read(
    path: str | Path, message_class: MessageClass, error: type[SwcaffeError] = WeightsError
) -> Message:
    """The message in a binary file. Raises `error` for a missing, empty, cut or foreign file."""
    try:
        size = Path(path).stat().st_size
        if size > LIMIT_BYTES:
            raise error(
                f"{path} has {size} B, more than the {LIMIT_BYTES} B that a message may have",
                fix="use the HDF5 format",
            )
        raw = Path(path).read_bytes()
    except OSError as cause:
        raise error(
            f"cannot read {path}: {cause.strerror}",
            fix="check the path and that the file may be read",
        ) from cause
    if not raw:
        raise error(f"{path} is empty", fix="it was not written to the end; use another")
    hint = next((text for start, text in _SIGNATURES.items() if raw.startswith(start)), "")
    try:
        if not hint:
            return message_class.FromString(raw)
    except DecodeError:
        hint = "the file is cut short, damaged, or of another kind"
    kind = message_class.DESCRIPTOR.name
    raise error(f"{path} ({len(raw)} B) is not a binary {kind}", fix=hint)


def write(path: str | Path, message: Message, error: type[SwcaffeError] = WeightsError) -> None:
    """Write a message to a file, which appears whole or not at all. Raises `error`."""
    size = message.ByteSize()
    if size > LIMIT_BYTES:
        raise error(
            f"cannot write {path}: {size} B, more than the {LIMIT_BYTES} B that a message may have",
            fix="use the HDF5 format (snapshot_format: HDF5)",
        )
    with write_atomically(path, error) as part:
        part.write_bytes(message.SerializeToString())


def read_net_binary(path: str | Path) -> Message:
    """The net with weights in a `.caffemodel` of any age, upgraded. Raises WeightsError."""
    net = read(path, messages.NetParameter)
    try:
        net = upgrade_net(net, str(path))
    except PrototxtError as cause:
        raise WeightsError(cause.message, where=cause.where, fix=cause.fix) from cause
    if not net.layer:
        raise WeightsError(f"{path} holds no layer", fix="give a file of weights of a net")
    return net


def blob_shape(blob: Message) -> Shape:
    """A BlobProto's shape; the four legacy integers, where any is present, count before `shape`."""
    if any(blob.HasField(name) for name in _LEGACY_DIMS):
        return tuple(getattr(blob, name) for name in _LEGACY_DIMS)
    return tuple(blob.shape.dim)


def blob_to_array(blob: Message, *, diff: bool = False) -> F32:
    """The values (or, with `diff`, the gradients) of a BlobProto in its shape, as float32.

    double_data counts before data, as in Caffe; data before NVCaffe's raw bytes. The array is new
    and writable. Raises WeightsError if the number of values does not fit the shape.
    """
    part = "diff" if diff else "data"
    for name, dtype in ((f"double_{part}", "<f8"), (part, "<f4")):
        if getattr(blob, name):
            values = _list_values(blob, name, np.dtype(dtype))
            break
    else:
        values = _raw_values(blob, part)
    shape = blob_shape(blob)
    if any(dim < 0 for dim in shape) or values.size != np.prod(shape, dtype=np.int64):
        raise WeightsError(
            f"a blob of shape {shape} holds {values.size} values of {part}",
            fix="make the file again",
        )
    array: F32 = values.astype(np.float32).reshape(shape)
    return array


def array_to_blob(array: Array, diff: Array | None = None) -> Message:
    """A BlobProto with shape and values; float64 goes to double_data, all else to data."""
    blob = messages.BlobProto()
    blob.shape.dim.extend(array.shape)
    for part, values in (("data", array), ("diff", diff)):
        if values is not None:
            is_double = values.dtype == np.float64
            name = f"double_{part}" if is_double else part
            body = np.ascontiguousarray(values, "<f8" if is_double else "<f4").tobytes()
            number = blob.DESCRIPTOR.fields_by_name[name].number
            blob.MergeFromString(_varint(number << 3 | _BYTES) + _varint(len(body)) + body)
    return blob


def _raw_values(blob: Message, part: str) -> Array:
    """Values stored as NVCaffe does: bytes and their type; none if there are none."""
    raw: bytes = getattr(blob, f"raw_{part}")
    kind = messages.RawArray.Type.Name(getattr(blob, f"raw_{part}_type"))
    return np.frombuffer(raw, _RAW_TYPES[kind]) if raw else np.empty(0, np.float32)


def _list_values(blob: Message, name: str, dtype: np.dtype[np.generic]) -> Array:
    """All values of a list of floats or doubles, without making a Python object of each."""
    wire = memoryview(blob.SerializeToString())
    number = blob.DESCRIPTOR.fields_by_name[name].number
    chunks = [np.frombuffer(body, dtype) for found, body in _fields(wire) if found == number]
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def _fields(wire: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of each field of a serialized message (not of those inside it)."""
    at = 0
    while at < len(wire):
        tag, at = _read_varint(wire, at)
        kind = tag & 7
        if kind == _VARINT:
            start, (_, at) = at, _read_varint(wire, at)
        elif kind == _BYTES:
            size, start = _read_varint(wire, at)
            at = start + size
        else:
            assert kind in (_FIXED32, _FIXED64), f"wire type {kind} in our own serialization"
            start, at = at, at + (4 if kind == _FIXED32 else 8)
        yield tag >> 3, wire[start:at]


def _read_varint(wire: memoryview, at: int) -> tuple[int, int]:
    """A base-128 number and the place after it."""
    value = shift = 0
    while True:
        byte = wire[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
