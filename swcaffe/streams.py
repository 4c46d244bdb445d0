"""Random numbers as a pure function of (seed, who draws, how many times it drew before).

Every draw comes from a Philox generator keyed by the seed and a name. So the order in which threads
or layers draw does not matter, adding a layer changes no other layer's numbers, and a resumed run
continues exactly when it knows how often each drawer has drawn.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np

__all__ = ["fresh_seed", "stream"]


def stream(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """The generator of drawer `name` for its draw number `index`; `seed` is 0 … 2^63 - 1."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=16).digest()
    key = np.frombuffer(digest, dtype=np.uint64)
    counter = np.array([0, 0, 0, index], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def fresh_seed() -> int:
    """A seed from the system's entropy, for runs without random_seed."""
    return secrets.randbits(63)
