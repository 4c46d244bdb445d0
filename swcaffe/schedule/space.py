"""Knobs and configurations: the named choices that a template leaves open."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Config", "ConfigSpace", "Knob"]


@dataclass(frozen=True, slots=True)
class Knob:
    """A name and its possible values."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """One value for each knob, in the order of the knobs."""

    values: tuple[tuple[str, int], ...]

    def __getitem__(self, name: str) -> int:
        """The value of a knob."""
        return dict(self.values)[name]

    def __str__(self) -> str:
        """Text: `tile_m=64 tile_n=128`."""
        return " ".join(f"{name}={value}" for name, value in self.values)


@dataclass(frozen=True, slots=True)
class ConfigSpace:
    """The product of knobs, less what `fits` rejects."""

    knobs: tuple[Knob, ...]
    fits: Callable[[Config], bool] = lambda config: True

    def __iter__(self) -> Iterator[Config]:
        """Configurations in order, the last knob varying fastest."""
        names = [knob.name for knob in self.knobs]
        for values in itertools.product(*(knob.values for knob in self.knobs)):
            config = Config(tuple(zip(names, values, strict=True)))
            if self.fits(config):
                yield config
