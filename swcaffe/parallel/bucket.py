"""Where gradients lie: one contiguous buffer, cut into buckets that are exchanged as soon as full.

Tensors are given in the order in which backward finishes them. Each starts on a 128-byte boundary;
the filling between stays zero, so a whole bucket can be summed as one vector. Dense and compressed
tensors fill buckets of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from swcaffe.arrays import ALIGNMENT_BYTES, F32, Shape, aligned_zeros

__all__ = ["Bucket", "Slot", "Tensor", "fill_buckets"]

_FLOAT_BYTES = 4
_ALIGNMENT = ALIGNMENT_BYTES // _FLOAT_BYTES


@dataclass(frozen=True, slots=True)
class Tensor:
    """A gradient to be exchanged; dense ones are summed as they are."""

    name: str
    shape: Shape
    dense: bool = True

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor's place in its bucket, in elements."""

    tensor: Tensor
    start: int

    @property
    def place(self) -> slice:
        """Its elements."""
        return slice(self.start, self.start + self.tensor.count)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Tensors that travel together.

    flat   their elements, and zeros between
    last   which of all tensors, in the order given, completes it
    """

    index: int
    slots: tuple[Slot, ...]
    flat: F32
    last: int

    @property
    def dense(self) -> bool:
        """Whether it is summed as it is."""
        return self.slots[0].tensor.dense

    @property
    def name(self) -> str:
        """Its tensors, for messages."""
        first, last = self.slots[0].tensor.name, self.slots[-1].tensor.name
        return first if first == last else f"{first} … {last}"

    def view(self, name: str) -> F32:
        """The gradient called `name`, in its shape; writing to it writes to the bucket."""
        slot = next(slot for slot in self.slots if slot.tensor.name == name)
        found: F32 = self.flat[slot.place].reshape(slot.tensor.shape)
        return found


def fill_buckets(tensors: Sequence[Tensor], limit_bytes: int = 4 << 20) -> list[Bucket]:
    """Buckets of up to `limit_bytes` (or one larger tensor), in the order in which they fill."""
    names = [tensor.name for tensor in tensors]
    assert len(set(names)) == len(names), f"names are not unique: {names}"
    groups: list[list[int]] = []
    for dense in (True, False):
        size = 0
        for i, tensor in enumerate(tensors):
            if tensor.dense is not dense:
                continue
            nbytes = _FLOAT_BYTES * _aligned(tensor.count)
            if not size or size + nbytes > limit_bytes:
                groups.append([])
                size = 0
            groups[-1].append(i)
            size += nbytes
    groups.sort(key=lambda members: members[-1])
    whole = aligned_zeros((sum(_aligned(tensor.count) for tensor in tensors),))
    buckets, start = [], 0
    for index, members in enumerate(groups):
        slots, size = [], 0
        for i in members:
            slots.append(Slot(tensors[i], size))
            size += _aligned(tensors[i].count)
        buckets.append(Bucket(index, tuple(slots), whole[start : start + size], members[-1]))
        start += size
    return buckets


def _aligned(count: int) -> int:
    return -(-max(1, count) // _ALIGNMENT) * _ALIGNMENT
