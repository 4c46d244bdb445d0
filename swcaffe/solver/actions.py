"""Requests that reach a running solver from outside: stop, or take a snapshot."""

from __future__ import annotations

import enum
import signal
from collections.abc import Mapping
from types import FrameType

__all__ = ["Action", "SignalActions"]


class Action(enum.Enum):
    """What a solver is asked to do at the next safe point."""

    NONE = "none"
    STOP = "stop"
    SNAPSHOT = "snapshot"


class SignalActions:
    """Turns signals into actions; a context manager that puts the old handlers back.

    A second signal of a kind whose effect is to stop, sent while the first still waits for the end
    of the iteration, falls to the handler that was there before (for SIGINT: KeyboardInterrupt).
    """

    def __init__(self, effects: Mapping[signal.Signals, Action]) -> None:
        """effects: what each signal asks for; signals of effect NONE are ignored."""
        self._effects = dict(effects)
        self._pending: list[signal.Signals] = []
        self._before: dict[signal.Signals, object] = {}
        self.stopped_by: signal.Signals | None = None

    def __enter__(self) -> SignalActions:
        """Install the handlers (main thread only)."""
        for number in self._effects:
            self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        """Put back the handlers that were there."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() gave us

    def _receive(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number)
        if name in self._pending and self._effects[name] is Action.STOP:
            signal.signal(name, self._before[name])  # type: ignore[arg-type]  # as above
            signal.raise_signal(name)
            return
        if self._effects[name] is not Action.NONE:
            self._pending.append(name)

    def __call__(self) -> Action:
        """The next request; snapshots before stops."""
        wanted = sorted(self._pending, key=lambda s: self._effects[s] is Action.STOP)
        if not wanted:
            return Action.NONE
        action = self._effects[wanted[0]]
        if action is Action.STOP:
            self.stopped_by = wanted[0]
        self._pending.remove(wanted[0])
        return action
