"""A word to who waits: the first run on a machine compiles kernels before anything is shown."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType

__all__ = ["StartNotice"]

log = logging.getLogger(__name__)

PATIENCE_S = 4.0
"""A warm start shows its first result well within this."""


class StartNotice:
    """A solver listener that logs one line if no event comes within a few seconds."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        """Count from now on."""
        self._timer = threading.Timer(patience_s, self._say)
        self._timer.daemon = True

    def _say(self) -> None:
        log.info(
            "No result yet. The first run on a computer compiles its kernels, which takes up to a "
            "minute; later runs load them"
        )

    def __call__(self, event: Mapping[str, object]) -> None:
        """Something happened: there is nothing to explain any more."""
        self._timer.cancel()

    def __enter__(self) -> StartNotice:
        """Start counting."""
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop counting."""
        self._timer.cancel()
