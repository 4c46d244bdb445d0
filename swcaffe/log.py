"""Log lines in Caffe's (glog's) form, which Caffe's own log parsers read.

`I1201 13:39:22.381027  25210 solver.cpp:204] Iteration 100, loss = 2.3`

Modules log through `logging.getLogger(__name__)`. A line that Caffe prints from a file of its own
carries that file's name: `log.info(text, extra={"origin": "solver.cpp:239"})`; others carry ours.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any, Protocol

import numpy as np

__all__ = ["GlogFormatter", "Stream", "configure", "number"]

ROOT = "swcaffe"


class Stream(Protocol):
    """What log lines are written to."""

    def write(self, text: str, /) -> object:
        """Take a piece of text."""

    def flush(self) -> None:
        """Nothing may stay behind."""


def number(value: float | np.floating[Any]) -> str:
    """A number as C++ streams print it: six significant digits (`0.01`, `1e-05`, `nan`, `inf`)."""
    return f"{float(value):.6g}"


class GlogFormatter(logging.Formatter):
    """glog's line format; the thread id column holds the process id."""

    def format(self, record: logging.LogRecord) -> str:
        """One prefix per line of the message, so that no line of a log is without a time."""
        level = {"WARNING": "W", "ERROR": "E", "CRITICAL": "F"}.get(record.levelname, "I")
        now = time.localtime(record.created)
        micros = int(record.created % 1 * 1e6)
        origin = getattr(record, "origin", f"{record.filename}:{record.lineno}")
        stamp = time.strftime("%m%d %H:%M:%S", now)
        prefix = f"{level}{stamp}.{micros:06d} {os.getpid():5d} {origin}] "
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return prefix + text


def configure(level: int = logging.INFO, stream: Stream | None = None, rank: int = 0) -> None:
    """Send our log to `stream` (standard error); ranks above 0 speak only from WARNING on."""
    logger = logging.getLogger(ROOT)
    for old in list(logger.handlers):
        logger.removeHandler(old)
    handler: logging.StreamHandler[Stream] = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(GlogFormatter())
    logger.addHandler(handler)
    logger.setLevel(level if rank == 0 else max(level, logging.WARNING))
    logger.propagate = False
