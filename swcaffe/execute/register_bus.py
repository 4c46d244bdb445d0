"""Row and column buses for programs that send and receive statement by statement.

Every CPE runs its own sequence of messages against bounded receive queues until all are done or
none can go on; then each waiting CPE is named, and on what it waits. The matrix kernel, whose
messages follow one fixed pattern, has a compiled leaf instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from swcaffe.arrays import F64, Array
from swcaffe.errors import DeadlockError, ProgramError
from swcaffe.ir.stmt import Bus
from swcaffe.machine.events import Counters
from swcaffe.machine.spec import Machine

__all__ = ["Message", "RegisterBuses"]


@dataclass(slots=True)
class Message:
    """One vector register to send or to receive: `values` is a view of LDM words of this CPE."""

    bus: Bus
    send: bool
    values: Array
    text: str


@dataclass(slots=True)
class _Cpe:
    """One CPE's place in its sequence."""

    place: tuple[int, int]
    sequence: Iterator[Message]
    current: Message | None = None
    queues: dict[Bus, deque[F64]] = field(default_factory=lambda: {bus: deque() for bus in Bus})


class RegisterBuses:
    """The buses of one core group."""

    def __init__(self, machine: Machine, counters: Counters) -> None:
        """Counts messages into `counters` as they enter the queues."""
        self._mesh, self._depth = machine.mesh, machine.register_bus.depth
        self._counters = counters

    def run(self, sequences: list[Iterator[Message]]) -> None:
        """Run one sequence for each CPE to its end; DeadlockError if they wait for ever."""
        cpes = [_Cpe(divmod(i, self._mesh.cols), s) for i, s in enumerate(sequences)]
        for cpe in cpes:
            cpe.current = next(cpe.sequence, None)
        busy = True
        while busy:
            busy = False
            for cpe in cpes:
                while cpe.current is not None and self._advance(cpe, cpes):
                    cpe.current, busy = next(cpe.sequence, None), True
        waiting = [self._complaint(cpe, cpes) for cpe in cpes if cpe.current is not None]
        if waiting:
            raise DeadlockError("\n".join((f"{len(waiting)} CPEs wait for ever:", *waiting)))
        for cpe in cpes:
            for bus, queue in cpe.queues.items():
                if queue:
                    left = f"{len(queue)} messages of its {bus.value} bus"
                    raise ProgramError(f"CPE {cpe.place} never receives {left}")

    def _targets(self, cpe: _Cpe, cpes: list[_Cpe]) -> list[_Cpe]:
        """The other CPEs on the bus of the message that `cpe` sends."""
        assert cpe.current is not None, "only for a CPE that sends"
        axis = 0 if cpe.current.bus is Bus.ROW else 1
        return [c for c in cpes if c is not cpe and c.place[axis] == cpe.place[axis]]

    def _advance(self, cpe: _Cpe, cpes: list[_Cpe]) -> bool:
        """Do the current message if the queues allow it; whether they did."""
        message = cpe.current
        assert message is not None, "only for a CPE with a message"
        if message.send:
            queues = [target.queues[message.bus] for target in self._targets(cpe, cpes)]
            if any(len(queue) >= self._depth for queue in queues):
                return False
            for queue in queues:
                queue.append(message.values.astype(float))
            if message.bus is Bus.ROW:
                self._counters.row_messages += 1
            else:
                self._counters.col_messages += 1
            return True
        queue = cpe.queues[message.bus]
        if not queue:
            return False
        message.values[...] = queue.popleft()
        return True

    def _complaint(self, cpe: _Cpe, cpes: list[_Cpe]) -> str:
        """What a waiting CPE waits for."""
        message = cpe.current
        assert message is not None, "only for a CPE that waits"
        bus = message.bus
        if not message.send:
            return f"CPE {cpe.place} waits to receive {message.text} on its {bus.value} bus"
        full = [t.place for t in self._targets(cpe, cpes) if len(t.queues[bus]) >= self._depth]
        return (
            f"CPE {cpe.place} waits to send {message.text} on its {bus.value} bus: "
            f"the queue of {full[0]} is full"
        )
