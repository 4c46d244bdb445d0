"""Bytes of a message: a header of four numbers, then arrays, each padded to four bytes.

Nothing in a message is believed. Its length must follow from its header, indices must rise and lie
within the tensor, numbers must be finite; what fails is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import DTypeLike

from swcaffe.arrays import F32, I64, U8, Array
from swcaffe.errors import ParallelError

__all__ = [
    "HEADER_BYTES",
    "check_indices",
    "check_numbers",
    "pack",
    "refuse",
    "unpack",
]

MAGIC = 0x53574343
HEADER_BYTES = 16

Layout = Callable[[int], Sequence[tuple[DTypeLike, int]]]
"""Entries of a message -> (type, length) of each array in it."""


def refuse(why: str) -> ParallelError:
    """The error of a message that cannot be used; the caller adds whose it was."""
    return ParallelError(
        f"malformed gradient message: {why}",
        fix="all ranks must run the same version with the same compressor",
    )


def _padded(nbytes: int) -> int:
    return -(-nbytes // 4) * 4


def pack(code: int, count: int, entries: int, *arrays: Array) -> U8:
    """A message of kind `code` for a tensor of `count` elements."""
    length = HEADER_BYTES + sum(_padded(array.nbytes) for array in arrays)
    message = np.zeros(length, np.uint8)
    message[:HEADER_BYTES].view(np.uint32)[:] = (MAGIC, code, count, entries)
    place = HEADER_BYTES
    for array in arrays:
        message[place : place + array.nbytes] = np.ascontiguousarray(array).view(np.uint8)
        place += _padded(array.nbytes)
    return message


def unpack(message: U8, code: int, count: int, layout: Layout) -> list[Array]:
    """The arrays of a message, as views; refuses any other kind, size or length."""
    if message.size < HEADER_BYTES:
        raise refuse(f"{message.size} bytes are no header")
    magic, kind, elements, entries = (int(n) for n in message[:HEADER_BYTES].view(np.uint32))
    if magic != MAGIC or kind != code:
        raise refuse(f"kind {magic:08x}/{kind}, expected {MAGIC:08x}/{code}")
    if elements != count or entries > count:
        raise refuse(f"{entries} of {elements} elements for a tensor of {count}")
    parts, place = [], HEADER_BYTES
    for kind_of_number, length in layout(entries):
        nbytes = np.dtype(kind_of_number).itemsize * length
        parts.append((place, nbytes, kind_of_number))
        place += _padded(nbytes)
    if place != message.size:
        raise refuse(f"{message.size} bytes where its header needs {place}")
    return [message[at : at + nbytes].view(of) for at, nbytes, of in parts]


def check_indices(indices: Array, count: int) -> I64:
    """Indices as int64; refused unless they rise and are below `count`."""
    places = indices.astype(np.int64)
    if places.size and (places[-1] >= count or (np.diff(places) <= 0).any()):
        raise refuse(f"indices do not rise within a tensor of {count}")
    return places


def check_numbers(values: Array) -> F32:
    """Values as float32; refused unless they are finite."""
    numbers = values.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise refuse("a value is not finite")
    return numbers
