"""The digits of data/digits at the sizes of LeNet and CIFAR-10 quick, by exact integer rules.

Needs Python 3.8, numpy and, to write databases, lmdb; the reference interpreter uses it too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["colour", "datum", "digits", "grey", "write_digits", "write_lmdb"]

ARCHIVE = Path(__file__).parents[2] / "data" / "digits" / "digits.npz"


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (1797, 8, 8) of 0..16, labels uint8 (1797,)."""
    with np.load(str(ARCHIVE)) as file:
        return file["images"], file["labels"]


def texture(count: int, channels: int, side: int, modulus: int) -> np.ndarray:
    """((7 + 4 c) y + (11 + 2 c) x + 3 x y + 29 i) mod `modulus`, uint8 (count, channels, side, side).

    Areas of one value, or rows repeated, would tie in maximum pooling, where implementations that
    sum in another order part, and would pass the kinks of ReLU together.
    """
    i, c, y, x = np.ogrid[:count, :channels, :side, :side]
    return (((7 + 4 * c) * y + (11 + 2 * c) * x + 3 * x * y + 29 * i) % modulus).astype(np.uint8)


def grey(images: np.ndarray) -> np.ndarray:
    """(n, 8, 8) of 0..16 -> uint8 (n, 1, 28, 28).

    15 x value, pixels repeated to 3 x 3, a border of 2 zeros, plus the texture modulo 16.
    """
    large = (images * 15).repeat(3, axis=1).repeat(3, axis=2)
    framed = np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None]
    return framed + texture(len(images), 1, 28, 16)


def colour(images: np.ndarray) -> np.ndarray:
    """(n, 8, 8) of 0..16 -> uint8 (n, 3, 32, 32).

    With v = 11 x value, pixels repeated to 4 x 4, the channels are v, 176 - v and |v - left
    neighbour|, each plus its texture modulo 64.
    """
    v = images * 11
    left = np.pad(v, ((0, 0), (0, 0), (1, 0)))[:, :, :-1]
    edges = np.maximum(v, left) - np.minimum(v, left)
    large = np.stack([v, 176 - v, edges], axis=1).repeat(4, axis=2).repeat(4, axis=3)
    return large + texture(len(images), 3, 32, 64)


def datum(image: np.ndarray, label: int) -> bytes:
    """A serialized Datum (channels 1, height 2, width 3, data 4, label 5) of a (c, h, w) image."""
    channels, height, width = image.shape
    data = image.tobytes()
    head = b"\x08" + varint(channels) + b"\x10" + varint(height) + b"\x18" + varint(width)
    return head + b"\x22" + varint(len(data)) + data + b"\x28" + varint(label)


def varint(value: int) -> bytes:
    """Protocol buffers' variable-length integer."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def write_lmdb(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """An LMDB as Caffe's convert_mnist_data writes it: keys %08d, one Datum each."""
    import lmdb

    with lmdb.open(str(path), map_size=1 << 28) as env, env.begin(write=True) as txn:
        for i, image in enumerate(images):
            txn.put(f"{i:08d}".encode(), datum(image, int(labels[i])))


def write_digits(name: str, path: Path) -> None:
    """The database of net `name` ("lenet" or "cifar10_quick"): all digits in their order."""
    images, labels = digits()
    write_lmdb(path, {"lenet": grey, "cifar10_quick": colour}[name](images), labels)
