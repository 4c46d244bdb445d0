"""What the training fixtures keep of a blob, and the weights all trainings start from.

Needs Python 3.8 and numpy only; the reference interpreter uses it too. Both rest on numpy's legacy
generator, whose stream is frozen, so nothing large has to be stored.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

__all__ = ["Digest", "digest", "distance", "start"]

SAMPLES, PROJECTIONS = 64, 32


@dataclass(frozen=True)
class Digest:
    """norm: Euclidean; samples: 64 entries; projections: onto 32 vectors of random signs."""

    norm: float
    samples: np.ndarray
    projections: np.ndarray


def generator(name: str) -> np.random.RandomState:
    """The generator that belongs to a name."""
    return np.random.RandomState(zlib.crc32(name.encode()))


def start(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """First value of blob `name` ("conv1/0"): uniform in +-sqrt(3 / fan_in), biases in +-0.1.

    Biases differ from 0 so that |difference| / |blob| means something for them as well. Values are
    rounded to half precision, which every number format on the way holds exactly.
    """
    limit = 0.1 if len(shape) == 1 else (3 * shape[0] / np.prod(shape)) ** 0.5
    values = generator(name).uniform(-limit, limit, size=shape)
    return values.astype(np.float16).astype(np.float32)


def digest(name: str, values: np.ndarray) -> Digest:
    """The digest of blob `name`; entries and signs depend on the name and the size alone."""
    flat = values.ravel().astype(np.float64)
    rng = generator(f"digest of {name}")
    samples = flat[rng.randint(0, flat.size, size=SAMPLES)]
    signs = [rng.randint(0, 2, size=flat.size) * 2.0 - 1.0 for _ in range(PROJECTIONS)]
    return Digest(float(np.linalg.norm(flat)), samples, np.array([flat @ row for row in signs]))


def distance(a: Digest, b: Digest) -> float:
    """Estimate of |A - B| / |B| from two digests of one blob name.

    For a vector s of independent signs, (s.d)^2 has the mean |d|^2; the root of the mean over 32 of
    them is within about 25 % of |d| (two standard deviations).
    """
    return float(np.sqrt(np.mean((a.projections - b.projections) ** 2)) / b.norm)
