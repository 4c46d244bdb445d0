"""A progress bar with rate and time left, below the log, on a terminal only."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from swcaffe.log import configure

__all__ = ["progress_bar"]

Event = Mapping[str, object]


class _Above:
    """A stream that writes whole lines above a live bar."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show

    def write(self, text: str, /) -> None:
        if text.strip("\n"):
            self._show(text.rstrip("\n"))

    def flush(self) -> None:
        """Lines are shown at once."""


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[Event], None] | None]:
    """A solver listener that moves a bar to `total` iterations; None when nobody would see it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )

    def show(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("training", total=total, rate="")
        level = logging.getLogger("swcaffe").level
        configure(level, stream=_Above(show))

        def listener(event: Event) -> None:
            if event["event"] == "iteration":
                speed = progress.tasks[0].speed
                rate = f"{speed:.1f} iter/s" if speed else ""
                progress.update(task, completed=event["iteration"], rate=rate)  # type: ignore[arg-type]  # int

        try:
            yield listener
        finally:
            configure(level)
