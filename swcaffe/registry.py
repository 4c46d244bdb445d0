"""Names -> things of one kind: layers, engines, templates, data sources, update rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from swcaffe.errors import SwcaffeError, unknown_name

__all__ = ["Registry"]

T = TypeVar("T")


class Registry(Generic[T]):
    """A dictionary filled by decorators; a failed look-up lists the nearest and all known names."""

    def __init__(self, kind: str, error: type[SwcaffeError]) -> None:
        """`kind` names the things in messages ("layer type"); `error` is raised by `get`."""
        self.kind = kind
        self._error = error
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files a thing under `name`; a second thing under one name is a bug."""

        def file(thing: T) -> T:
            assert name not in self._things, f"{self.kind} {name!r} is registered twice"
            self._things[name] = thing
            return thing

        return file

    def get(self, name: str) -> T:
        """The thing called `name`, or the registry's error with near spellings."""
        try:
            return self._things[name]
        except KeyError:
            raise self._error(
                unknown_name(self.kind, name, self._things), fix="give one of these"
            ) from None

    def __contains__(self, name: str) -> bool:
        """Whether `name` is registered."""
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        """Names in byte-wise order."""
        return iter(sorted(self._things))

    def __len__(self) -> int:
        """Number of names."""
        return len(self._things)
