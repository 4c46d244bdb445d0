"""Solver: the iteration loop, with Caffe's order of events and its log lines."""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from swcaffe.arrays import Array
from swcaffe.engine.engine import Engine
from swcaffe.errors import NumericsError, ParameterError, SnapshotError, locate
from swcaffe.log import number
from swcaffe.net.net import BuildOptions, Net
from swcaffe.net.weights import load_weights, save_weights, share_weights
from swcaffe.proto import messages
from swcaffe.proto.messages import Message
from swcaffe.proto.prototxt import read_solver, write
from swcaffe.proto.source_map import SourceMap
from swcaffe.solver.actions import Action
from swcaffe.solver.display import say, show_outputs, warn_of_repeats
from swcaffe.solver.lr_policy import LearningRate
from swcaffe.solver.numerics import first_non_finite
from swcaffe.solver.snapshot import (
    WEIGHTS_DIGEST,
    find_weights,
    probe_prefix,
    read_state,
    weights_digest,
    write_state,
)
from swcaffe.solver.spec import SolverNets, check_settings, solver_nets, weight_files
from swcaffe.solver.state import SolverState
from swcaffe.solver.update import Updater
from swcaffe.streams import fresh_seed, stream

__all__ = ["Solver", "SolverOptions"]

log = logging.getLogger(__name__)

Event = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """What a run is given beside its solver file.

    resume_data    continue data layers where the snapshot left them; False starts at record 0, as
                   Caffe does
    on_non_finite  "stop" (NumericsError) or "warn" when a loss or gradient is NaN or infinite
    bad_records    "error" or "skip": what data layers do with unreadable records
    lenient        unknown fields in net files are warnings
    """

    resume_data: bool = True
    on_non_finite: str = "stop"
    bad_records: str = "error"
    lenient: bool = False


class Solver:
    """Trains a net. `step` and `solve` run; `test`, `snapshot` and `restore` may be called between.

    listeners    get every event, a dictionary whose "event" is iteration, train, test or snapshot
    on_start, on_gradients_ready   called in every iteration, as in pycaffe
    next_action  asked after every iteration and before every test batch
    """

    def __init__(
        self,
        param: Message,
        engine: Engine,
        *,
        base: Path | None = None,
        places: SourceMap | None = None,
        options: SolverOptions | None = None,
    ) -> None:
        """Build the nets of an upgraded SolverParameter.

        base     the folder of its file, where nets are looked for too
        places   where its fields were written

        Raises ParameterError, PrototxtError, NetError and what layers raise; SnapshotError if the
        snapshot prefix cannot be written.
        """
        self.param = param
        self.engine = engine
        self.options = options or SolverOptions()
        self.iter = 0
        self.on_start: list[Callable[[], None]] = []
        self.on_gradients_ready: list[Callable[[], None]] = []
        self.listeners: list[Callable[[Event], None]] = []
        self.next_action: Callable[[], Action] = lambda: Action.NONE
        self.stop_requested = False
        say(45, "Initializing solver from parameters: \n%s", write(param))
        places = places or SourceMap("")
        check_settings(param, places)
        with locate(places.where(("lr_policy",))):
            self.learning_rate = LearningRate(param)
        self.seed = param.random_seed if param.random_seed >= 0 else fresh_seed()
        nets = solver_nets(param, base or Path(), places, lenient=self.options.lenient)
        with locate(places.where(("snapshot_prefix",))):
            probe_prefix(param.snapshot_prefix, param.snapshot)
        self.net, self.test_nets = self._build(nets)
        with locate(places.where(("type",))):
            self.updater = Updater(param, self.net, engine)
        for i, net in enumerate(self.test_nets):
            warn_of_repeats(net, param.test_iter[i], f"test net #{i}")
        self._losses: deque[float] = deque(maxlen=param.average_loss)
        self._shown_at = 0.0
        self._shown_iter = -1
        self._resumed = False
        for path in weight_files(param):
            self.load_weights(path)
        say(57, "Solver scaffolding done.")

    @classmethod
    def from_file(
        cls, path: str | Path, engine: Engine, options: SolverOptions | None = None
    ) -> Solver:
        """The solver of a prototxt file."""
        options = options or SolverOptions()
        parsed = read_solver(Path(path), lenient=options.lenient)
        base, places = Path(path).parent, parsed.source_map
        return cls(parsed.message, engine, base=base, places=places, options=options)

    # -- building ---------------------------------------------------------------------------------

    def _seeds(self) -> Iterator[int]:
        """Seeds of the training net and of each test net."""
        yield self.seed
        for i in itertools.count():
            yield int(stream(self.seed, "test net", i).integers(2**63))

    def _build(self, nets: SolverNets) -> tuple[Net, list[Net]]:
        built: list[Net] = []
        try:
            for definition, seed in zip((nets.train, *nets.tests), self._seeds(), strict=False):
                if built:
                    i = len(built) - 1
                    origin = nets.test_origins[i]
                    say(190, "Creating test net (#%d) specified by %s", i, origin)
                options = BuildOptions(self.engine, seed, bad_records=self.options.bad_records)
                built.append(Net(definition, options))
        except BaseException:
            for net in built:
                net.close()
            raise
        return built[0], built[1:]

    def load_weights(self, path: str) -> None:
        """Start from trained weights, in the training net and every test net."""
        say(70, "Finetuning from %s", path)
        for net in (self.net, *self.test_nets):
            load_weights(net, path)

    def close(self) -> None:
        """Stop reader threads and release files."""
        for net in (self.net, *self.test_nets):
            net.close()

    # -- running ----------------------------------------------------------------------------------

    @property
    def lr(self) -> float:
        """Rate of the coming iteration; for multistep, asking moves on by at most one step."""
        return self.learning_rate.at(self.iter)

    def solve(self, resume: str | Path | None = None) -> None:
        """Train to max_iter, with the snapshot, loss and test that Caffe ends with."""
        p = self.param
        if not p.HasField("max_iter"):
            raise ParameterError("max_iter is missing", fix="set the iterations to train")
        say(272, "Solving %s", self.net.name)
        say(273, "Learning Rate Policy: %s", p.lr_policy)
        if resume is not None:
            self.restore(resume)
        self.stop_requested = False
        self.step(p.max_iter - self.iter)
        fresh = p.snapshot and self.iter % p.snapshot == 0 and self.iter
        wanted = p.snapshot_after_train or self.stop_requested
        if wanted and p.snapshot_prefix and not fresh:
            self.snapshot()
        if self.stop_requested:
            say(289, "Optimization stopped early.")
            return
        if p.display and self.iter % p.display == 0:
            loss = self._remember(self.net.forward())
            say(304, "Iteration %d, loss = %s", self.iter, number(loss))
        if p.test_interval and self.iter % p.test_interval == 0:
            self.test_all()
        say(309, "Optimization Done.")

    def step(self, iterations: int) -> None:
        """Run up to `iterations` iterations; fewer if an action asks to stop.

        The displayed loss is averaged from this call on, as in Caffe, unless a run was resumed.
        """
        p = self.param
        stop = self.iter + iterations
        if not self._resumed:
            self._losses.clear()
        self._resumed = False
        if self._shown_iter < 0:
            self._shown_at = time.perf_counter()
        while self.iter < stop:
            self.net.clear_param_diffs()
            due = p.test_interval and self.iter % p.test_interval == 0
            if due and (self.iter > 0 or p.test_initialization):
                self.test_all()
                if self.stop_requested:
                    break
            for call in self.on_start:
                call()
            display = bool(p.display and self.iter % p.display == 0)
            self.net.debug_info = display and p.debug_info
            loss = self._forward_backward()
            self._check_finite(loss)
            smoothed = self._remember(loss)
            if display:
                self._show(smoothed)
            for call in self.on_gradients_ready:
                call()
            self.apply_update(show_rate=display)
            self._emit("iteration", loss=loss)
            action = self.next_action()
            periodic = p.snapshot and self.iter % p.snapshot == 0
            if periodic or action is Action.SNAPSHOT:
                self.snapshot()
            if action is Action.STOP:
                self.stop_requested = True
                break

    def _forward_backward(self) -> float:
        """One pass, or iter_size of them with gradients adding up; the mean loss."""
        loss = 0.0
        for _ in range(self.param.iter_size):
            loss += self.net.forward()
            self.net.backward()
        return loss / int(self.param.iter_size)

    def apply_update(self, *, show_rate: bool = False) -> None:
        """Update the weights from the present gradients and count an iteration."""
        rate = self.lr
        if show_rate:
            log.info(
                "Iteration %d, lr = %s",
                self.iter,
                number(rate),
                extra={"origin": "sgd_solver.cpp:112"},
            )
        self.updater.apply(rate, self.iter)
        self.iter += 1

    def _remember(self, loss: float) -> float:
        """Mean loss of the last average_loss iterations, this one included."""
        self._losses.append(loss)
        return sum(self._losses) / len(self._losses)

    def _check_finite(self, loss: float) -> None:
        if np.isfinite(loss) and self.updater.gradients_finite():
            return
        found = first_non_finite(self.net)
        message = f"iteration {self.iter}: loss is {number(loss)}; first in {found}"
        if self.options.on_non_finite == "stop":
            raise NumericsError(
                message,
                fix="lower base_lr, set clip_gradients, or look for bad values in the data "
                "(--on_non_finite=warn goes on)",
            )
        log.warning(message)

    # -- showing ----------------------------------------------------------------------------------

    def _emit(self, event: str, **fields: object) -> None:
        if self.listeners:
            record = {"event": event, "iteration": self.iter, **fields}
            for listener in self.listeners:
                listener(record)

    def _show(self, smoothed: float) -> None:
        p = self.param
        now = time.perf_counter()
        seconds = now - self._shown_at
        since = self.iter - self._shown_iter if self._shown_iter >= 0 else 0
        speed = since / seconds if seconds > 0 else 0.0
        say(
            239,
            "Iteration %d (%s iter/s, %ss/%d iters), loss = %s",
            self.iter,
            number(speed),
            number(seconds),
            p.display,
            number(smoothed),
        )
        self._shown_at, self._shown_iter = now, self.iter
        values = {i: self.net.blobs[i].data.reshape(-1) for i in self.net.outputs}
        outputs = show_outputs("Train", self.net, values)
        rate = self.learning_rate.peek(self.iter)
        self._emit("train", loss=smoothed, lr=rate, speed=speed, outputs=outputs)

    # -- testing ----------------------------------------------------------------------------------

    def test_all(self) -> None:
        """Run every test net, until an action asks to stop."""
        for i in range(len(self.test_nets)):
            if self.stop_requested:
                break
            self.test(i)

    def test(self, index: int = 0) -> dict[str, object]:
        """Mean outputs of a test net over its test_iter batches; empty if stopped meanwhile."""
        net, batches = self.test_nets[index], self.param.test_iter[index]
        say(347, "Iteration %d, Testing net (#%d)", self.iter, index)
        share_weights(net, self.net)
        sums = {i: np.zeros(net.blobs[i].count, np.float64) for i in net.outputs}
        loss = 0.0
        for _ in range(batches):
            action = self.next_action()
            if action is Action.SNAPSHOT:
                self.snapshot()
            elif action is Action.STOP:
                self.stop_requested = True
                say(398, "Test interrupted.")
                return {}
            loss += net.forward()
            for i, total in sums.items():
                total += net.blobs[i].data.reshape(-1)
        if self.param.test_compute_loss:
            say(403, "Test loss: %s", number(loss / batches))
        means = {i: total / batches for i, total in sums.items()}
        outputs = show_outputs("Test", net, means)
        self._emit("test", net=index, outputs=outputs)
        return outputs

    # -- snapshots --------------------------------------------------------------------------------

    def snapshot(self) -> Path:
        """Write weights, then state; the state's path. Raises SnapshotError."""
        p = self.param
        if not p.snapshot_prefix:
            raise SnapshotError("there is no snapshot_prefix", fix="set snapshot_prefix")
        hdf5 = p.snapshot_format == messages.SolverParameter.HDF5
        kind, suffix = ("HDF5", ".h5") if hdf5 else ("binary proto", "")
        stem = f"{p.snapshot_prefix}_iter_{self.iter}"
        weights, state = f"{stem}.caffemodel{suffix}", f"{stem}.solverstate{suffix}"
        say(464, "Snapshotting to %s file %s", kind, weights)
        save_weights(self.net, weights, diff=p.snapshot_diff)
        text = "Snapshotting solver state to %s file %s"
        log.info(text, kind, state, extra={"origin": "sgd_solver.cpp:284"})
        content = self.state(weights)
        content.extra[WEIGHTS_DIGEST] = weights_digest(Path(weights))
        write_state(Path(state), content)
        self._emit("snapshot", weights=weights, state=state)
        return Path(state)

    def state(self, learned_net: str = "") -> SolverState:
        """Everything but the weights."""
        extra: dict[str, Array] = {"solver/losses": np.array(self._losses, np.float64)}
        for i, net in enumerate((self.net, *self.test_nets)):
            extra.update({f"{i}/{key}": value for key, value in net.state().items()})
        return SolverState(
            iteration=self.iter,
            learned_net=learned_net,
            current_step=self.learning_rate.current_step,
            history=self.updater.histories(),
            seed=self.seed,
            extra=extra,
        )

    def restore(self, path: str | Path) -> None:
        """Continue from a state and the weights it names. Raises SnapshotError, WeightsError."""
        path = Path(path)
        say(66, "Restoring previous solver status from %s", path)
        state = read_state(path)
        if state.learned_net:
            load_weights(self.net, find_weights(path, state))
        self.updater.load_histories(state.history, str(path))
        self.iter = state.iteration
        self.learning_rate.current_step = state.current_step
        self._losses.clear()
        self._losses.extend(float(v) for v in state.extra.get("solver/losses", ()))
        self._resumed = True
        self._restore_layers(state)

    def _restore_layers(self, state: SolverState) -> None:
        if state.seed is not None:
            self.seed = state.seed
            for net, seed in zip((self.net, *self.test_nets), self._seeds(), strict=False):
                net.reseed(seed)
        for i, net in enumerate((self.net, *self.test_nets)):
            prefix = f"{i}/"
            extra = state.extra.items()
            own = {k.removeprefix(prefix): v for k, v in extra if k.startswith(prefix)}
            net.load_state(own, data=self.options.resume_data)
