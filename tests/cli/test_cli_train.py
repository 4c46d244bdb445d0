"""`swcaffe train` as a process: signals, kills, resuming, the log and what reads it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from swcaffe.data.database import create_database
from swcaffe.data.datum import raw_value
from swcaffe.proto import messages
from swcaffe.proto.binary import blob_to_array, read, read_net_binary
from swcaffe.report.curves import read_curves

NET = """
name: "small"
layer {{ name: "data" type: "Data" top: "data" top: "label"
  transform_param {{ scale: 0.00390625 mirror: true }}
  data_param {{ source: "{folder}/db" batch_size: 5 backend: LMDB shuffle: true }} }}
layer {{ name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
  inner_product_param {{ num_output: 16 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "relu" type: "ReLU" bottom: "ip1" top: "ip1" }}
layer {{ name: "drop" type: "Dropout" bottom: "ip1" top: "ip1" }}
layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param {{ num_output: 3 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
  include {{ phase: TEST }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }}
"""
SOLVER = """
net: "{folder}/net.prototxt" test_iter: 4 test_interval: 50
base_lr: 0.05 momentum: 0.9 lr_policy: "inv" gamma: 0.001 power: 0.75
display: 10 max_iter: {max_iter} snapshot: {snapshot} random_seed: 3
snapshot_prefix: "{folder}/{prefix}/run" solver_mode: CPU
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    with create_database(tmp_path / "db") as database:
        for i in range(23):
            image = rng.integers(0, 100, (1, 6, 6)) + 70 * (i % 3)
            database.put(f"{i:08d}", raw_value(image.astype(np.uint8), i % 3))
    (tmp_path / "net.prototxt").write_text(NET.format(folder=tmp_path))
    return tmp_path


def solver(folder: Path, prefix: str, max_iter: int, snapshot: int = 0) -> Path:
    path = folder / f"{prefix}.prototxt"
    text = SOLVER.format(folder=folder, prefix=prefix, max_iter=max_iter, snapshot=snapshot)
    path.write_text(text)
    return path


def start(*args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "swcaffe", "train", *map(str, args)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def train(*args: object) -> str:
    process = start(*args)
    _, log = process.communicate(timeout=120)
    assert process.returncode == 0, log
    return log


def await_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    raise AssertionError(f"{text!r} never came; exit code {process.wait()}")


def weights(path: Path) -> list[np.ndarray]:
    return [blob_to_array(b) for layer in read_net_binary(path).layer for b in layer.blobs]


def assert_same(one: Path, two: Path) -> None:
    for a, b in zip(weights(one), weights(two), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_signal_ends_with_a_snapshot_that_resumes_exactly(
    folder: Path, number: signal.Signals, code: int
) -> None:
    process = start("--solver", solver(folder, "cut", 10**8))
    await_line(process, "Iteration 50 (")
    process.send_signal(number)
    _, log = process.communicate(timeout=60)
    assert process.returncode == code, log
    assert "Optimization stopped early." in log
    (state,) = (folder / "cut").glob("*.solverstate")
    at = read(state, messages.SolverState).iter
    assert at > 50
    train("--solver", solver(folder, "cut", at + 20), "--snapshot", state)
    train("--solver", solver(folder, "whole", at + 20))
    name = f"run_iter_{at + 20}.caffemodel"
    assert_same(folder / "cut" / name, folder / "whole" / name)


def test_a_hang_up_snapshots_and_goes_on(folder: Path) -> None:
    process = start("--solver", solver(folder, "hup", 10**8))
    await_line(process, "Iteration 20 (")
    process.send_signal(signal.SIGHUP)
    await_line(process, "Snapshotting solver state")
    await_line(process, "Iteration ")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(list((folder / "hup").glob("*.solverstate"))) == 2


def test_signal_effects_can_be_chosen(folder: Path) -> None:
    path = solver(folder, "effects", 10**8)
    process = start("--solver", path, "-sigint_effect=snapshot", "-sighup_effect", "stop")
    await_line(process, "Iteration 20 (")
    process.send_signal(signal.SIGINT)
    await_line(process, "Snapshotting solver state")
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 129


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_weights_of_the_unbroken_one(folder: Path) -> None:
    train("--solver", solver(folder, "whole", 400, 100))
    rng = np.random.default_rng(7)
    for attempt in range(4):
        prefix = f"killed{attempt}"
        path = solver(folder, prefix, 400, 100)
        process = start("--solver", path)
        await_line(process, "Iteration 100 (")
        time.sleep(float(rng.uniform(0, 0.15)))
        process.kill()
        process.communicate(timeout=60)
        states = sorted((folder / prefix).glob("*.solverstate"), key=lambda p: p.stat().st_mtime)
        train("--solver", path, "--snapshot", states[-1])
        name = "run_iter_400.caffemodel"
        assert_same(folder / prefix / name, folder / "whole" / name)


def test_logs_are_read_by_the_rules_of_caffes_parsers(folder: Path) -> None:
    events = folder / "events.json"
    log = train("--solver", solver(folder, "log", 200, 100), "--log_json", events)
    # parse_log.py: patterns as documented, applied to every line
    rows: dict[int, dict[str, float]] = {}
    tests: dict[int, dict[str, float]] = {}
    iteration = -1
    started = False
    for line in log.splitlines():
        started = started or "Solving" in line
        if match := re.search(r"Iteration (\d+)", line):
            iteration = int(match[1])
        if match := re.search(r"Train net output #(\d+): (\S+) = ([.\deE+-]+)", line):
            rows.setdefault(iteration, {})[match[2]] = float(match[3])
        if match := re.search(r"Test net output #(\d+): (\S+) = ([.\deE+-]+)", line):
            tests.setdefault(iteration, {})[match[2]] = float(match[3])
        if match := re.search(r"lr = ([-+]?\d*\.?\d+([eE]?[-+]?\d+)?)", line):
            rows.setdefault(iteration, {})["lr"] = float(match[1])
    assert started
    assert list(rows) == list(range(0, 200, 10))
    assert list(tests) == [0, 50, 100, 150, 200]
    assert all(set(row) == {"loss", "lr"} for row in rows.values())
    # parse_log.sh: values by position in the line
    outputs = [line.split() for line in log.splitlines() if "Test net output #0" in line]
    assert [float(words[10]) for words in outputs] == [t["accuracy"] for t in tests.values()]
    rates = [line.split() for line in log.splitlines() if ", lr = " in line]
    assert [float(words[8]) for words in rates] == [row["lr"] for row in rows.values()]
    # extract_seconds.py: month and day, then the time, in the first two words
    times = [line.split()[:2] for line in log.splitlines() if "Iteration" in line]
    for day, clock in times:
        assert re.fullmatch(r"I\d{4}", day)
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{6}", clock)
    # the JSON lines hold the same numbers
    objects = [json.loads(line) for line in events.read_text().splitlines()]
    for event in objects:
        if event["event"] == "train":
            assert event["outputs"]["loss"] == pytest.approx(
                rows[event["iteration"]]["loss"], rel=1e-5
            )
    for source in (events, folder / "text.log"):
        if source.suffix == ".log":
            source.write_text(log)
        curves = read_curves(source)
        assert curves["train loss"].iterations == list(range(0, 200, 10))
        assert curves["test accuracy"].values == pytest.approx(
            [t["accuracy"] for t in tests.values()], rel=1e-5
        )


def test_there_is_no_progress_bar_in_a_pipe(folder: Path) -> None:
    log = train("--solver", solver(folder, "pipe", 20))
    assert "\x1b" not in log
    assert "\r" not in log


def test_errors_in_files_are_two_lines_and_exit_one(folder: Path) -> None:
    (folder / "net.prototxt").write_text(
        NET.format(folder=folder).replace("num_output", "num_outputs")
    )
    process = start("--solver", solver(folder, "bad", 20))
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(r"net\.prototxt:7:\d+: .*num_outputs.*num_output", log)
    assert "Traceback" not in log
