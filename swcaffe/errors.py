"""The exception tree. Every error a user can cause says what, where and how to mend it.

SwcaffeError
├── UsageError            wrong flags or arguments                          exit code 2
├── PrototxtError         text that is not a valid net or solver            exit code 1, as below
├── NetError              wiring: unknown blobs, duplicate tops, no producer
├── ParameterError        a layer or solver parameter out of its range
├── ShapeError            blobs that do not fit a layer or each other
├── DataError             files, records, lists, labels
├── WeightsError          caffemodel files that do not fit or cannot be read
├── SnapshotError         solver states: writing, reading, resuming
├── NumericsError         NaN or infinity where none may be
├── EngineError           an engine, fidelity or operator that does not exist
├── ScheduleError         a schedule step or template that refuses
├── ParallelError         ranks of one run that fail each other           exit code 70
│   ├── PeerTimeoutError  a rank that stays silent for too long           exit code 72
│   └── DesyncError       ranks that do different things at one time      exit code 73
└── ProgramError          a tensor program that breaks a rule of the machine
    ├── LdmError          capacity exceeded, uninitialised or unfinished data read
    └── DeadlockError     CPEs that wait for each other for ever
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

__all__ = [
    "DataError",
    "DeadlockError",
    "DesyncError",
    "EngineError",
    "LdmError",
    "NetError",
    "NumericsError",
    "ParallelError",
    "ParameterError",
    "PeerTimeoutError",
    "ProgramError",
    "PrototxtError",
    "ScheduleError",
    "ShapeError",
    "SnapshotError",
    "SwcaffeError",
    "UsageError",
    "WeightsError",
    "locate",
    "unknown_name",
]


class SwcaffeError(Exception):
    """What went wrong (`message`), where in the user's files (`where`), how to mend it (`fix`)."""

    exit_code = 1

    def __init__(self, message: str, *, where: str = "", fix: str = "") -> None:
        """Keep the three parts; `where` is usually filled on the way up by `locate`."""
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        """`where: message`, and a second line `  fix: …` when there is one."""
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  fix: {self.fix}" if self.fix else text

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with all parts, so that an error may cross a process or thread pool."""
        return (_rebuild, (type(self), self.message, self.where, self.fix))


def _rebuild(kind: type[SwcaffeError], message: str, where: str, fix: str) -> SwcaffeError:
    return kind(message, where=where, fix=fix)


class UsageError(SwcaffeError):
    """Wrong flags or arguments on the command line."""

    exit_code = 2


class PrototxtError(SwcaffeError):
    """Text that is not a valid net or solver definition."""


class NetError(SwcaffeError):
    """A net that cannot be wired."""


class ParameterError(SwcaffeError):
    """A parameter of a layer or solver that is missing, contradictory or out of range."""


class ShapeError(SwcaffeError):
    """Blobs whose shapes do not fit."""


class DataError(SwcaffeError):
    """Input files, records, lists or labels that cannot be used."""


class WeightsError(SwcaffeError):
    """Weight files that cannot be read or do not fit the net."""


class SnapshotError(SwcaffeError):
    """Solver states that cannot be written, read or resumed from."""


class NumericsError(SwcaffeError):
    """NaN or infinity where none may be."""


class EngineError(SwcaffeError):
    """An engine, fidelity or operator that does not exist."""


class ScheduleError(SwcaffeError):
    """A schedule step or template that refuses; the message names the step."""


class ParallelError(SwcaffeError):
    """Ranks of one run that fail each other; the message names them."""

    exit_code = 70


class PeerTimeoutError(ParallelError):
    """A rank that stays silent for longer than the limit."""

    exit_code = 72


class DesyncError(ParallelError):
    """Ranks that do different things at one time: collectives skipped or out of order."""

    exit_code = 73


class ProgramError(SwcaffeError):
    """A tensor program that breaks a rule of the machine; names the statement and loop values."""


class LdmError(ProgramError):
    """Local data memory: capacity exceeded, or data read before it was written or had arrived."""


class DeadlockError(ProgramError):
    """CPEs that wait for each other for ever; the message lists each one and on what it waits."""


@contextmanager
def locate(where: str, subject: str = "") -> Iterator[None]:
    """Complete any SwcaffeError passing through.

    where    becomes its place, unless it has one already
    subject  (`layer "conv1" (Convolution)`) is put before its message, unless that names it already
    """
    try:
        yield
    except SwcaffeError as error:
        if not error.where:
            error.where = where
        if subject and subject.rsplit(" (", 1)[0] not in error.message:
            error.message = f"{subject}: {error.message}"
        raise


def unknown_name(kind: str, name: str, known: Mapping[str, object] | list[str]) -> str:
    """Text for an unknown name: nearest matches first, then every known name."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    if not near:
        folded = {n.lower().replace("_", ""): n for n in names}
        near = [
            folded[m]
            for m in get_close_matches(name.lower().replace("_", ""), list(folded), n=3, cutoff=0.6)
        ]
    hint = f" (did you mean {' or '.join(repr(n) for n in near)}?)" if near else ""
    return f"unknown {kind} {name!r}{hint}; known: {', '.join(names)}"
