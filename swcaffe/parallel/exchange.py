"""Sum gradients over ranks while backward still runs.

`push` hands a full bucket to a thread with a communicator of its own, which exchanges buckets one
after the other in their fixed order; `wait` returns when all are sums. Before data moves, ranks
compare what each is about to do: iteration, bucket, lengths, and whether a gradient is not finite.
So a skipped or reordered exchange, or a NaN on one rank, is an error on all ranks in the same
iteration instead of wrong sums.

Messages of compressed tensors are gathered and added in rank order. Where they would weigh more
than a dense sum, each rank writes its own message out and those are summed instead; all ranks see
all lengths, so they decide alike.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue

import numpy as np

from swcaffe.arrays import I64, U8, Array
from swcaffe.errors import DesyncError, NumericsError, ParallelError, locate
from swcaffe.parallel.allreduce import Groups, allreduce
from swcaffe.parallel.bucket import Bucket, Slot
from swcaffe.parallel.communicator import Communicator
from swcaffe.parallel.compressors import Gathering, Summing
from swcaffe.parallel.residual import Residual
from swcaffe.parallel.selection import check_finite
from swcaffe.parallel.statistics import Statistics

__all__ = ["Exchange"]

_CONTROL = 3
"""Numbers before the lengths: iteration, bucket, 1 + number of a tensor that is not finite."""


class Exchange:
    """Turns the buckets of this rank into sums over all ranks, once an iteration.

    comm       duplicated for the exchanging thread: creating an Exchange is a collective call
    residuals  for every tensor that is not dense, by name
    algorithm  of dense sums; `groups` as in `allreduce`
    """

    def __init__(
        self,
        comm: Communicator,
        buckets: Sequence[Bucket],
        residuals: Mapping[str, Residual] | None = None,
        *,
        algorithm: str = "ring",
        groups: Groups | None = None,
    ) -> None:
        """Starts the thread."""
        self.buckets = buckets
        self.residuals = dict(residuals or {})
        self.statistics = Statistics()
        self.iteration = 0
        self._comm = comm.duplicate()
        self._algorithm = algorithm
        self._groups = groups
        self._pushed = 0
        self._todo: SimpleQueue[Bucket | None] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="exchange", daemon=True)
        self._thread.start()

    def push(self, bucket: Bucket) -> None:
        """Start exchanging a full bucket; its array must rest until `wait`. Fixed order."""
        expected = self.buckets[self._pushed].index
        if bucket.index != expected:
            raise DesyncError(
                f"rank {self._comm.rank} pushed bucket {bucket.index} ({bucket.name}) "
                f"where {expected} is due",
                fix="push buckets in the order of `fill_buckets`",
            )
        self._pushed += 1
        self._todo.put(bucket)

    def wait(self) -> None:
        """Return when every bucket holds the sum over all ranks; raises what went wrong first.

        After an error an Exchange is of no more use: ranks no longer agree on what comes next.
        """
        if self._pushed != len(self.buckets):
            raise DesyncError(
                f"rank {self._comm.rank} waits after {self._pushed} of {len(self.buckets)} buckets",
                fix="push every bucket once an iteration",
            )
        with self.statistics.timed("wait"):
            errors = [self._done.get() for _ in self.buckets]
        for error in errors:
            if error is not None:
                raise error
        self._pushed = 0
        self.iteration += 1
        self.statistics.iterations += 1

    def use_density(self, density: float) -> None:
        """Send this share from the next iteration on; 1: all, uncompressed. Alike on all ranks."""
        for residual in self.residuals.values():
            residual.use_density(density)

    def close(self) -> None:
        """End the thread, after what it is doing."""
        self._todo.put(None)
        self._thread.join(self._comm.timeout_s)

    def state(self) -> dict[str, Array]:
        """What a snapshot of this rank must keep; call it between `wait` and `push`."""
        kept: dict[str, Array] = {"iteration": np.array(self.iteration, np.int64)}
        for name, residual in self.residuals.items():
            kept |= {f"{name}/{key}": value for key, value in residual.state().items()}
        return kept

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Continue from `state`; SnapshotError names the tensor that does not fit."""
        for name, residual in self.residuals.items():
            mine = {k: v for k, v in state.items() if k.startswith(f"{name}/")}
            residual.load_state({k.removeprefix(f"{name}/"): v for k, v in mine.items()})
        self.iteration = int(state["iteration"])

    def _work(self) -> None:
        """The thread: its errors are raised in `wait`, and nothing is exchanged after one."""
        failure: BaseException | None = None
        while (bucket := self._todo.get()) is not None:
            try:
                if failure is None:
                    self._sum_dense(bucket) if bucket.dense else self._sum_compressed(bucket)
            except Exception as error:  # raised in the caller's thread
                failure = error
            self._done.put(failure)

    def _sum_dense(self, bucket: Bucket) -> None:
        with self.statistics.timed("encode"):
            bad = self._not_finite(bucket)
        with self.statistics.timed("communicate"):
            self._agree(bucket, bad, [])
            allreduce(self._comm, bucket.flat, self._algorithm, self._groups, bucket.name)
        self._count(bucket.flat.nbytes, self._dense_bytes(bucket.flat))

    def _not_finite(self, bucket: Bucket) -> int:
        """1 + number of the first slot with NaN or infinity; 0: none."""
        for number, slot in enumerate(bucket.slots, 1):
            try:
                check_finite(bucket.flat[slot.place])
            except NumericsError:
                return number
        return 0

    def _sum_compressed(self, bucket: Bucket) -> None:
        with self.statistics.timed("encode"):
            bad = self._not_finite(bucket)
            gathering = [] if bad else [s for s in bucket.slots if self._gathers(s)]
            messages: list[U8] = []
            try:
                for slot in gathering:
                    messages.append(self._encode(bucket, slot))
            except NumericsError:  # the residual overflowed: told to all ranks below
                bad = 1 + bucket.slots.index(gathering[len(messages)])
        with self.statistics.timed("communicate"):
            lengths = [message.size for message in messages]
            lengths += [0] * (len(bucket.slots) - len(lengths))
            table = self._agree(bucket, bad, lengths)
        if messages:
            self._gather(bucket, gathering, messages, table[:, : len(messages)])
        for slot in bucket.slots:
            if not self._gathers(slot):
                self._sum_steps(bucket, slot)
        self._count(bucket.flat.nbytes, 0)

    def _gathers(self, slot: Slot) -> bool:
        return isinstance(self.residuals[slot.tensor.name].current, Gathering)

    def _encode(self, bucket: Bucket, slot: Slot) -> U8:
        """Offer the gradient to its residual, take a message out of it."""
        residual = self.residuals[slot.tensor.name]
        compressor = residual.current
        assert isinstance(compressor, Gathering), slot.tensor.name
        left = residual.offer(bucket.flat[slot.place])
        message = compressor.encode(left, residual.memory)
        compressor.decode(message, left, -1.0)
        residual.mask(compressor.sent(message, left.size))
        return message

    def _gather(
        self, bucket: Bucket, slots: Sequence[Slot], messages: Sequence[U8], lengths: I64
    ) -> None:
        """All ranks' messages, added in rank order; or a dense sum where that is less."""
        dense = sum(self._dense_bytes(bucket.flat[slot.place]) for slot in slots)
        others = int(lengths.sum(axis=1).max()) * (self._comm.size - 1)
        if others > dense:
            for slot, message in zip(slots, messages, strict=True):
                self._sum_written_out(bucket, slot, message)
            return
        with self.statistics.timed("communicate"):
            mine = np.concatenate(messages)
            parts = self._comm.allgatherv(mine, lengths.sum(axis=1).tolist(), bucket.name)
        with self.statistics.timed("decode"):
            for slot in slots:
                bucket.flat[slot.place] = 0
            for rank, part in enumerate(parts):
                ends = np.cumsum(lengths[rank])
                for slot, end, length in zip(slots, ends, lengths[rank], strict=True):
                    self._decode(bucket, slot, part[end - length : end], rank)
        self._count(0, mine.size * (self._comm.size - 1))

    def _decode(self, bucket: Bucket, slot: Slot, message: U8, rank: int) -> None:
        compressor = self.residuals[slot.tensor.name].current
        assert isinstance(compressor, Gathering), slot.tensor.name
        with locate(f"rank {self._comm.rank}", f"message of rank {rank} for {slot.tensor.name}"):
            compressor.decode(message, bucket.flat[slot.place])

    def _sum_written_out(self, bucket: Bucket, slot: Slot, message: U8) -> None:
        flat = bucket.flat[slot.place]
        with self.statistics.timed("decode"):
            flat[:] = 0
            self._decode(bucket, slot, message, self._comm.rank)
        with self.statistics.timed("communicate"):
            allreduce(self._comm, flat, self._algorithm, self._groups, slot.tensor.name)
        self._count(0, self._dense_bytes(flat))

    def _sum_steps(self, bucket: Bucket, slot: Slot) -> None:
        """A compressor whose small arrays are summed over the ranks."""
        residual = self.residuals[slot.tensor.name]
        compressor = residual.current
        assert isinstance(compressor, Summing), slot.tensor.name
        flat = bucket.flat[slot.place]
        with self.statistics.timed("encode"):
            left = residual.offer(flat)
            sent = np.empty_like(left)
            steps = compressor.steps(left, residual.memory, flat, sent)
        while True:
            with self.statistics.timed("encode"):
                part = next(steps, None)
            if part is None:
                break
            with self.statistics.timed("communicate"):
                line = part.reshape(-1)
                assert np.shares_memory(line, part), "steps yield contiguous arrays"
                allreduce(self._comm, line, self._algorithm, self._groups, slot.tensor.name)
            self._count(0, self._dense_bytes(line))
        left -= sent
        residual.mask(compressor.places(residual.memory, left.size))

    def _agree(self, bucket: Bucket, bad: int, lengths: Sequence[int]) -> I64:
        """Compare control numbers of all ranks; (ranks, len(lengths)) lengths of their messages."""
        mine = np.array([self.iteration, bucket.index, bad, *lengths], np.int64)
        table: I64 = self._comm.allgather(mine, f"control of {bucket.name}")
        for rank, row in enumerate(table):
            if (row[:2] != mine[:2]).any():
                raise DesyncError(
                    f"rank {rank} exchanges bucket {row[1]} of iteration {row[0]}, "
                    f"rank {self._comm.rank} bucket {mine[1]} of iteration {mine[0]}",
                    fix="all ranks must take the same steps; see the log of the rank that differs",
                )
        for rank in np.flatnonzero(table[:, 2]).tolist():
            name = bucket.slots[int(table[rank, 2]) - 1].tensor.name
            raise NumericsError(
                f"gradient of {name} has NaN or infinity on rank {rank} "
                f"in iteration {self.iteration}",
                fix="lower the learning rate, or look for the layer with debug_info",
            )
        if lengths and (table[:, _CONTROL:] < 0).any():
            raise ParallelError(
                f"a rank announces a message of negative length for {bucket.name}",
                fix="all ranks must run the same version",
            )
        return table[:, _CONTROL:]

    def _dense_bytes(self, flat: Array) -> int:
        """What each rank sends in a dense sum that is as good as any."""
        return 2 * (self._comm.size - 1) * flat.nbytes // self._comm.size

    def _count(self, dense_nbytes: int, sent_bytes: int) -> None:
        size = self._comm.size
        self.statistics.dense_bytes += 2 * (size - 1) * dense_nbytes // size
        self.statistics.sent_bytes += sent_bytes
