"""Caffe's database values: serialized Datum messages to records and back."""

from __future__ import annotations

import numpy as np

from swcaffe.arrays import U8, Array
from swcaffe.data.image import Colour, decode
from swcaffe.data.source import Record
from swcaffe.errors import DataError
from swcaffe.proto import messages

__all__ = ["encoded_value", "raw_value", "record_of"]


def record_of(value: bytes, key: bytes, colour: Colour, where: str) -> Record:
    """The record of one database entry: pixels (c, h, w) uint8 or float32, and its label.

    `colour` concerns compressed pictures only. Raises DataError naming `where` (the database) and
    the key if the value is no Datum, or its data do not have the size it states.
    """
    name = key.decode("utf-8", "backslashreplace")
    try:
        datum = messages.Datum.FromString(value)
    except messages.DecodeError as cause:
        raise DataError(
            f"{where}: record {name!r}: its {len(value)} bytes are not a Datum",
            fix="write the database with convert_imageset or one of the other converters",
        ) from cause
    if datum.encoded:
        data: Array = decode(datum.data, colour, f"{where}: record {name!r}")
    else:
        data = _raw(datum, name, where)
    return Record(data, (float(datum.label),), name)


def raw_value(pixels: Array, label: int) -> bytes:
    """A Datum of bytes (uint8) or numbers (any other dtype), (c, h, w), as Caffe's tools write."""
    channels, height, width = pixels.shape
    datum = messages.Datum(channels=channels, height=height, width=width, label=label)
    if pixels.dtype == np.uint8:
        datum.data = pixels.tobytes()
    else:
        datum.float_data.extend(pixels.ravel().tolist())
    datum.encoded = False
    return bytes(datum.SerializeToString())


def encoded_value(data: bytes, label: int) -> bytes:
    """A Datum of a compressed picture; like Caffe's it states no size."""
    datum = messages.Datum(data=data, label=label, encoded=True)
    return bytes(datum.SerializeToString())


def _raw(datum: messages.Message, name: str, where: str) -> U8 | Array:
    shape = (datum.channels, datum.height, datum.width)
    if datum.data:
        flat: Array = np.frombuffer(datum.data, dtype=np.uint8)
    else:
        flat = np.array(datum.float_data, dtype=np.float32)
    count = shape[0] * shape[1] * shape[2]
    if min(shape) <= 0 or len(flat) != count:
        raise DataError(
            f"{where}: record {name!r}: {len(flat)} values for shape {shape}, which has {count}",
            fix="write the record again; its channels, height and width must be those of its data",
        )
    return flat.reshape(shape)
