"""Labelled pictures made from a seed: for tests, timing and trying a net without data."""

from __future__ import annotations

import numpy as np

from swcaffe.data.source import SOURCES, DataSource, Record

__all__ = ["SyntheticSource"]


@SOURCES.register("synthetic")
class SyntheticSource(DataSource):
    """`classes` random patterns, uint8; record i is pattern i % classes under noise.

    Learnable by any net that can tell the patterns apart, so a falling loss means something.
    """

    def __init__(
        self,
        records: int = 1000,
        channels: int = 1,
        height: int = 28,
        width: int = 28,
        classes: int = 10,
        noise: int = 64,
        seed: int = 0,
    ) -> None:
        """`noise` is the largest change of a pixel, 0 … 255."""
        self._records, self._noise, self._seed = records, noise, seed
        generator = np.random.RandomState(np.random.Philox(key=[seed, 0]))
        shape = (classes, channels, height, width)
        self._patterns = generator.randint(0, 256, size=shape).astype(np.int16)

    def __len__(self) -> int:
        """Number of records."""
        return self._records

    def read(self, index: int) -> Record:
        """Record `index`; (channels, height, width) uint8 and its class."""
        self.check_index(index)
        generator = np.random.RandomState(np.random.Philox(key=[self._seed, index + 1]))
        label = index % len(self._patterns)
        pattern = self._patterns[label]
        noise = generator.randint(-self._noise, self._noise + 1, size=pattern.shape)
        pixels = np.clip(pattern + noise, 0, 255).astype(np.uint8)
        return Record(pixels, (float(label),), f"synthetic {index}")

    def describe(self) -> str:
        """Kind, shape, count."""
        return f"synthetic {self._patterns.shape[1:]}, {self._records} records"
