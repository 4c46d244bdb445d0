"""Commands on a hostile system: full disks, closed streams, signals at any time, wrong values."""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from swcaffe.cli.json_lines import JsonLines
from swcaffe.cli.main import main
from swcaffe.data.database import create_database
from swcaffe.data.datum import raw_value
from swcaffe.errors import DataError
from swcaffe.report.curves import read_curves

NET = """
layer {{ name: "data" type: "Data" top: "data" top: "label"
  data_param {{ source: "{folder}/db" batch_size: 5 backend: LMDB }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param {{ num_output: 64 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""
SOLVER = """
net: "{folder}/net.prototxt" base_lr: 0.0001 lr_policy: "fixed" display: 1 max_iter: 4
snapshot_prefix: "{folder}/run" solver_mode: CPU random_seed: 1
"""
LIMIT = 60_000
"""Bytes a file may have where writing is to fail: the database and the weights are larger."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    with create_database(tmp_path / "db") as database:
        for i in range(10):
            database.put(f"{i:08d}", raw_value(rng.integers(0, 255, (1, 40, 40), np.uint8), i % 3))
    (tmp_path / "net.prototxt").write_text(NET.format(folder=tmp_path))
    (tmp_path / "solver.prototxt").write_text(SOLVER.format(folder=tmp_path))
    return tmp_path


def no_room() -> None:
    """Let no file of this process grow beyond LIMIT, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def no_streams() -> None:
    """Close standard input, output and error."""
    for stream in range(3):
        os.close(stream)


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "swcaffe", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        **options,  # type: ignore[call-overload]
    )


def assert_explained(done: subprocess.CompletedProcess[str], text: str) -> None:
    """Exit code 1, and an error of two lines that says `text`."""
    assert done.returncode == 1, done.stderr
    message = done.stderr[done.stderr.index("error: ") :]
    assert text in message
    assert "internal" not in message
    assert len(message.splitlines()) == 2
    assert message.splitlines()[1].startswith("  fix: ")


@pytest.mark.parametrize("kind", ["BINARYPROTO", "HDF5"])
def test_a_snapshot_on_a_full_disk_is_explained_and_leaves_nothing(folder: Path, kind: str) -> None:
    solver = folder / "solver.prototxt"
    solver.write_text(f"{solver.read_text()} snapshot_format: {kind}")
    done = run("train", "--solver", solver, preexec_fn=no_room)
    assert_explained(done, f"cannot write {folder}/run_iter_4.caffemodel")
    assert not [p.name for p in folder.iterdir() if "run" in p.name]


def test_converting_on_a_full_disk_is_explained_and_leaves_nothing(folder: Path) -> None:
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    Image.fromarray(noise).save(folder / "noise.png")
    (folder / "list.txt").write_text("noise.png 1\n")
    words = ["convert_imageset", f"{folder}/", folder / "list.txt", folder / "new"]
    assert_explained(run(*words, preexec_fn=no_room), "cannot store the entries")
    assert not list(folder.glob("*new*"))
    assert run(*words).returncode == 0
    assert [p.name for p in (folder / "new").iterdir()] == ["data.mdb"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_json_log_on_a_full_disk_is_explained() -> None:
    lines = JsonLines(Path("/dev/full"))
    with lines, pytest.raises(DataError, match="cannot write /dev/full: No space left"):
        lines({"event": "train", "iteration": 0})


def test_json_lines_stay_json_when_losses_do_not_stay_numbers(tmp_path: Path) -> None:
    outputs = {"loss": math.nan, "scores": [1.0, math.inf]}
    with JsonLines(tmp_path / "log.json") as lines:
        lines({"event": "train", "iteration": 0, "lr": 0.1, "loss": 2.0, "outputs": {"loss": 2.0}})
        lines({"event": "train", "iteration": 3, "lr": 0.1, "loss": math.nan, "outputs": outputs})
    last = (tmp_path / "log.json").read_text().splitlines()[-1]
    assert "NaN" not in last and "Infinity" not in last
    assert json.loads(last)["outputs"] == {"loss": None, "scores": [1.0, None]}
    curve = read_curves(tmp_path / "log.json")["train loss"]
    assert curve.iterations == [0, 3]
    assert curve.values[0] == 2.0 and math.isnan(curve.values[1])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_explained() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-u", "-m", "swcaffe", "--version"],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert_explained(done, "No space left on device")


def test_training_needs_no_open_streams(folder: Path) -> None:
    words = ["train", "--solver", str(folder / "solver.prototxt")]
    command = [sys.executable, "-m", "swcaffe", *words]
    assert subprocess.run(command, check=False, preexec_fn=no_streams, timeout=120).returncode == 0
    assert (folder / "run_iter_4.solverstate").exists()


def test_the_command_loads_nothing_heavy_before_it_can_be_interrupted() -> None:
    code = "import sys, swcaffe.cli.main; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("train --solver x --threads -3", "'-3' is not a whole number from 0 on"),
        ("train --solver x more", "unexpected argument 'more'"),
        ("plot a.log b.log", "unexpected argument 'b.log'"),
        ("convert_imageset --resize_width -1 a/ b c", "'-1' is not a whole number from 0 on"),
        ("device_query --machine sw26011", "invalid choice: 'sw26011'"),
    ],
)
def test_wrong_values_of_flags_are_wrong_usage(
    words: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.splitlines()[1].startswith("  fix: ")
