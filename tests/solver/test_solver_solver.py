"""The iteration loop: resuming, accumulation, tests, non-finite values, callbacks."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from swcaffe.data.database import create_database
from swcaffe.data.datum import raw_value
from swcaffe.engine.engine import Engine
from swcaffe.errors import NumericsError, ParameterError, SnapshotError
from swcaffe.solver.actions import Action
from swcaffe.solver.solver import Solver, SolverOptions

Event = Mapping[str, object]
Files = Callable[..., Path]
Make = Callable[..., Solver]
TYPES = ["SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam"]


def open_solver(path: Path, engine: Engine, **options: object) -> Solver:
    return Solver.from_file(path, engine, SolverOptions(**options))  # type: ignore[arg-type]


@pytest.fixture
def make(reference_engine: Engine) -> Iterator[Make]:
    made: list[Solver] = []

    def build(path: Path, **options: object) -> Solver:
        made.append(open_solver(path, reference_engine, **options))
        return made[-1]

    yield build
    for solver in made:
        solver.close()


def weights(solver: Solver) -> list[np.ndarray]:
    return [p.blob.data.copy() for p in solver.net.learnable_params]


def assert_same(one: list[np.ndarray], two: list[np.ndarray]) -> None:
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def shown_losses(solver: Solver) -> list[object]:
    events: list[object] = []
    solver.listeners.append(lambda e: events.append(e["loss"]) if e["event"] == "train" else None)
    return events


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("snapshot_format", ["BINARYPROTO", "HDF5"])
def test_a_resumed_run_equals_the_unbroken_one_bit_for_bit(
    files: Files, make: Make, kind: str, snapshot_format: str
) -> None:
    momentum = "momentum" if kind in ("AdaGrad", "RMSProp") else ""
    path = files(f'type: "{kind}" snapshot_format: {snapshot_format}', drop=momentum)
    whole = make(path)
    losses = shown_losses(whole)
    whole.step(20)

    first = make(path)
    first.step(10)
    state = first.snapshot()
    second = make(path)
    resumed = shown_losses(second)
    second.restore(state)
    second.step(10)

    assert second.iter == 20
    assert_same(weights(whole), weights(second))
    assert_same(whole.updater.histories(), second.updater.histories())
    assert losses[10:] == resumed


def test_a_resumed_run_without_seed_goes_on_with_the_seed_it_drew(files: Files, make: Make) -> None:
    path = files(drop="random_seed")
    whole = make(path)
    whole.step(10)
    state = whole.snapshot()
    whole.step(10)
    second = make(path)
    assert second.seed != whole.seed
    second.restore(state)
    second.step(10)
    assert_same(weights(whole), weights(second))


def test_readers_can_start_at_the_first_record_as_in_caffe(files: Files, make: Make) -> None:
    path = files(shuffle=False, dropout=0.4)
    first = make(path)
    first.step(4)
    state = first.snapshot()
    fresh = make(path)
    fresh.net.forward()
    again = make(path, resume_data=False)
    again.restore(state)
    again.net.forward()
    np.testing.assert_array_equal(again.net.blob("data").data, fresh.net.blob("data").data)
    on = make(path)
    on.restore(state)
    on.net.forward()
    assert (on.net.blob("data").data != fresh.net.blob("data").data).any()


def test_the_same_seed_repeats_and_another_does_not(files: Files, make: Make) -> None:
    path = files()
    one, two = make(path), make(path)
    other = make(files(drop="random_seed", extra="random_seed: 6", name="other"))
    for solver in (one, two, other):
        solver.step(5)
    assert_same(weights(one), weights(two))
    assert (weights(one)[0] != weights(other)[0]).any()


def test_iter_size_equals_the_larger_batch(files: Files, make: Make) -> None:
    whole = make(files(batch=8, shuffle=False, dropout=0.0))
    losses = shown_losses(whole)
    whole.step(5)
    parts = make(files("iter_size: 2", batch=4, shuffle=False, dropout=0.0, name="parts"))
    halves = shown_losses(parts)
    parts.step(5)
    for a, b in zip(weights(whole), weights(parts), strict=True):
        assert np.linalg.norm(a - b) <= 1e-6 * np.linalg.norm(a)
    assert losses == pytest.approx(halves, rel=1e-6)


def test_clipping_scales_the_whole_gradient(
    files: Files, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "swcaffe")
    logging.getLogger("swcaffe").propagate = True
    free = make(files("clip_gradients: 1e9", drop="momentum weight_decay"))
    free.step(1)
    norm = np.sqrt(sum(float((p.blob.diff**2).sum()) for p in free.net.learnable_params))
    start = weights(make(files(drop="momentum weight_decay")))
    bound = float(norm) / 4
    clipped = make(files(f"clip_gradients: {bound}", drop="momentum weight_decay"))
    clipped.step(1)
    for w0, w1, w2 in zip(start, weights(free), weights(clipped), strict=True):
        np.testing.assert_allclose((w0 - w1) / 4, w0 - w2, rtol=2e-3, atol=1e-8)
    assert "Gradient clipping: scaling down gradients" in caplog.text


def test_tests_run_before_the_update_and_share_the_weights(files: Files, make: Make) -> None:
    solver = make(files("test_iter: 3 test_interval: 2"))
    tests: list[tuple[object, object]] = []
    solver.listeners.append(
        lambda e: tests.append((e["iteration"], e["outputs"])) if e["event"] == "test" else None
    )
    solver.step(5)
    assert [iteration for iteration, _ in tests] == [0, 2, 4]
    assert all(set(outputs) == {"accuracy", "loss"} for _, outputs in tests)  # type: ignore[call-overload]
    assert solver.test_nets[0].params[0].blob.shares_data_with(solver.net.params[0].blob)


def test_test_initialization_can_be_left_out(files: Files, make: Make) -> None:
    solver = make(files("test_iter: 1 test_interval: 2 test_initialization: false"))
    tests: list[object] = []
    solver.listeners.append(
        lambda e: tests.append(e["iteration"]) if e["event"] == "test" else None
    )
    solver.step(3)
    assert tests == [2]


def test_a_test_that_repeats_records_says_how_many(
    files: Files, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "swcaffe")
    logging.getLogger("swcaffe").propagate = True
    make(files("test_iter: 7 test_interval: 2"))
    assert "5 of 37 records" in caplog.text
    caplog.clear()
    make(files("test_iter: 6 test_interval: 2"))
    assert "records" not in caplog.text


def test_seven_batches_of_100_out_of_672_records_repeat_28(
    tmp_path: Path, files: Files, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Case D09; in whole passes no record counts more than another."""
    with create_database(tmp_path / "tested") as database:
        for i in range(672):
            database.put(f"{i:08d}", raw_value(np.zeros((1, 8, 8), np.uint8), i % 3))
    path = files("test_iter: 7 test_interval: 2", batch=100)
    net = tmp_path / "net.prototxt"
    net.write_text(net.read_text().replace('/db"', '/tested"'))
    caplog.set_level(logging.WARNING, "swcaffe")
    logging.getLogger("swcaffe").propagate = True
    make(path)
    assert "7 batches of 100 read 28 of 672 records once more often" in caplog.text
    net.write_text(net.read_text().replace("batch_size: 100", "batch_size: 96"))
    caplog.clear()
    make(path)
    assert "once more often" not in caplog.text


def test_a_bad_learning_rate_stops_with_the_place(files: Files, make: Make) -> None:
    solver = make(files(drop="base_lr", extra="base_lr: 1e38"))
    with pytest.raises(NumericsError, match=r"iteration \d+: .*first in .*(conv|ip)"):
        solver.step(5)


def test_a_nan_in_the_input_names_the_blob(files: Files, make: Make) -> None:
    solver = make(files())
    blob = solver.net.blob("data")
    solver.net.after_forward.append(lambda i: blob.data.fill(np.nan) if i == 0 else None)
    with pytest.raises(NumericsError, match=r'iteration 0: .*"data"'):
        solver.step(1)


def test_non_finite_values_may_be_only_warned_about(
    files: Files, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("swcaffe").propagate = True
    solver = make(files(drop="base_lr", extra="base_lr: 1e38"), on_non_finite="warn")
    solver.step(3)
    assert solver.iter == 3
    assert "first in" in caplog.text


def test_nothing_changes_at_rate_zero(files: Files, make: Make) -> None:
    solver = make(files(drop="base_lr weight_decay", extra="base_lr: 0"))
    before = weights(solver)
    solver.step(3)
    assert_same(before, weights(solver))


def test_stopping_ends_the_iteration_and_snapshots(
    files: Files, make: Make, tmp_path: Path
) -> None:
    solver = make(files("snapshot_after_train: false"))
    solver.next_action = lambda: Action.STOP if solver.iter == 3 else Action.NONE
    solver.solve()
    assert solver.iter == 3
    assert (tmp_path / "out" / "run_iter_3.solverstate").exists()


def test_snapshots_come_on_request_and_in_their_interval(
    files: Files, make: Make, tmp_path: Path
) -> None:
    solver = make(files("snapshot: 8"))
    solver.next_action = lambda: Action.SNAPSHOT if solver.iter == 5 else Action.NONE
    solver.solve()
    names = sorted(p.name for p in (tmp_path / "out").glob("*.caffemodel"))
    assert names == [f"run_iter_{i}.caffemodel" for i in (16, 20, 5, 8)]
    assert not list((tmp_path / "out").glob("*.part"))


def test_snapshot_folders_are_made_and_unwritable_ones_refused_at_once(
    files: Files, make: Make, tmp_path: Path
) -> None:
    deep = make(files(drop="snapshot_prefix", extra=f'snapshot_prefix: "{tmp_path}/a/b/c"'))
    deep.snapshot()
    assert (tmp_path / "a/b/c_iter_0.solverstate").exists()
    with pytest.raises(SnapshotError, match="cannot write to snapshot prefix /proc/nowhere/x"):
        make(files(drop="snapshot_prefix", extra='snapshot_prefix: "/proc/nowhere/x"'))


def test_weights_given_as_snapshot_are_told_apart(files: Files, make: Make, tmp_path: Path) -> None:
    solver = make(files())
    solver.snapshot()
    with pytest.raises(SnapshotError, match=r"run_iter_0\.solverstate to continue") as caught:
        solver.restore(tmp_path / "out" / "run_iter_0.caffemodel")
    assert "--weights" in str(caught.value)


def test_a_state_of_another_solver_is_refused(files: Files, make: Make, tmp_path: Path) -> None:
    state = make(files('type: "Adam"')).snapshot()
    with pytest.raises(
        SnapshotError, match=r"holds 8 history blobs, this solver \(SGD, 4 parameters\) has 4"
    ):
        make(files(name="sgd")).restore(state)


@pytest.mark.parametrize(
    ("drop", "extra", "message"),
    [
        ("", "type: 'Adamm'", "unknown solver type 'Adamm'.*Adam"),
        ("", "regularization_type: 'L3'", "unknown regularization_type 'L3'"),
        ("average_loss", "average_loss: 0", "average_loss is 0"),
        ("", "iter_size: 0", "iter_size is 0"),
        ("", "type: 'AdaGrad'", "momentum is 0.9, but AdaGrad has none"),
        ("momentum", "type: 'RMSProp' rms_decay: 1", r"rms_decay must lie in \[0, 1\), got 1"),
    ],
)
def test_bad_settings_are_refused(
    files: Files, make: Make, drop: str, extra: str, message: str
) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        make(files(extra, drop=drop))
    assert re.search(r"solver\.prototxt:\d+$", caught.value.where)


def test_callbacks_run_in_order(files: Files, make: Make) -> None:
    solver = make(files())
    seen: list[str] = []
    solver.on_start.append(lambda: seen.append("start"))
    solver.on_gradients_ready.append(lambda: seen.append("ready"))
    solver.step(2)
    assert seen == ["start", "ready"] * 2


def test_the_displayed_loss_is_averaged_from_each_call_on(files: Files, make: Make) -> None:
    solver = make(files())
    losses = shown_losses(solver)
    raw: list[float] = []
    solver.listeners.append(
        lambda e: raw.append(float(str(e["loss"]))) if e["event"] == "iteration" else None
    )
    solver.step(6)
    solver.step(2)
    assert losses[3] == pytest.approx(np.mean(raw[:4]))
    assert losses[5] == pytest.approx(np.mean(raw[2:6]))
    assert losses[6] == pytest.approx(raw[6])


@pytest.mark.parametrize("snapshot_format", ["BINARYPROTO", "HDF5"])
def test_weights_that_another_run_overwrote_are_not_taken_for_the_states_own(
    files: Files, make: Make, snapshot_format: str
) -> None:
    first = make(files(f"snapshot_format: {snapshot_format}"))
    state = first.snapshot()
    weights_file = next(p for p in state.parent.iterdir() if ".caffemodel" in p.name)
    kept = state.read_bytes()
    first.net.params[0].blob.data[...] += 1
    first.snapshot()  # the same names; then the state of the first snapshot comes back
    state.write_bytes(kept)
    with pytest.raises(SnapshotError, match="not those saved with it"):
        first.restore(state)
    content = bytearray(weights_file.read_bytes())
    first.restore(first.snapshot())
    content[len(content) // 2] ^= 1
    weights_file.write_bytes(content)
    with pytest.raises(SnapshotError, match="damaged"):
        first.restore(state)
