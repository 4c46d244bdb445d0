"""Fixtures for tests of the documentation."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Commands send the log to standard error; put it back to what it was for other tests."""
    logger = logging.getLogger("swcaffe")
    before = list(logger.handlers), logger.level, logger.propagate
    yield
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])
