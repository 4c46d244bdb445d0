"""The digits of data/digits at the sizes of LeNet and CIFAR-10 quick, by exact integer rules.

Needs Python 3.8 and numpy only; the reference interpreter uses it too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["colour", "digits", "grey"]

ARCHIVE = Path(__file__).parents[2] / "data" / "digits" / "digits.npz"


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (1797, 8, 8) of 0..16, labels uint8 (1797,)."""
    with np.load(str(ARCHIVE)) as file:
        return file["images"], file["labels"]


def grey(images: np.ndarray) -> np.ndarray:
    """(n, 8, 8) of 0..16 -> uint8 (n, 1, 28, 28): times 15, pixels 3 x 3, border of 2 zeros."""
    large = (images * 15).repeat(3, axis=1).repeat(3, axis=2)
    return np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None]


def colour(images: np.ndarray) -> np.ndarray:
    """(n, 8, 8) of 0..16 -> uint8 (n, 3, 32, 32): v, 240 - v, |v - left neighbour|, 4 x 4."""
    v = images * 15
    left = np.pad(v, ((0, 0), (0, 0), (1, 0)))[:, :, :-1]
    edges = np.maximum(v, left) - np.minimum(v, left)
    return np.stack([v, 240 - v, edges], axis=1).repeat(4, axis=2).repeat(4, axis=3)
