"""The communicator of a run with one rank: nobody to talk to."""

from __future__ import annotations

from typing import NoReturn

from swcaffe.arrays import Array
from swcaffe.parallel.communicator import Communicator, Request

__all__ = ["LocalCommunicator"]


class LocalCommunicator(Communicator):
    """Rank 0 of 1: every collective is the identity; point-to-point messages have no address."""

    def __init__(self) -> None:
        """Alone."""
        super().__init__(0, 1)

    def isend(self, array: Array, to: int, tag: int = 0) -> Request:
        """No peer exists."""
        raise AssertionError(f"no rank {to} in a run with one rank")

    def irecv(self, array: Array, source: int, tag: int = 0) -> Request:
        """No peer exists."""
        raise AssertionError(f"no rank {source} in a run with one rank")

    def duplicate(self) -> LocalCommunicator:
        """Another one like it."""
        return LocalCommunicator()

    def abort(self, code: int) -> NoReturn:
        """Leave with `code`."""
        raise SystemExit(code)
