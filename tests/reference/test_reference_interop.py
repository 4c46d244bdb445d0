"""Files written by the reference Caffe are read by swcaffe, and the reverse.

The second half needs the reference interpreter (README.md): SWCAFFE_REFERENCE_PYTHON names it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from reference.load import F32, interop
from reference.pictures import digits

import swcaffe.layers  # noqa: F401  fills the registry
from swcaffe.data.database import create_database, open_database
from swcaffe.data.mean import compute_image_mean, read_mean
from swcaffe.engine.engine import create_engine
from swcaffe.net.layer import Phase
from swcaffe.net.net import BuildOptions, Net
from swcaffe.net.weights import load_weights, save_weights
from swcaffe.proto import messages
from swcaffe.solver.snapshot import read_state
from swcaffe.solver.solver import Solver, SolverOptions

HERE = Path(__file__).parent
EXPECTED = interop()
FORMATS = ("", ".h5")
REFERENCE = os.environ.get("SWCAFFE_REFERENCE_PYTHON", "")

needs_reference = pytest.mark.skipif(
    not REFERENCE, reason="SWCAFFE_REFERENCE_PYTHON does not name a Python with BVLC Caffe"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of interop/, made the current folder: Caffe's names are relative to it."""
    target = tmp_path / "interop"
    shutil.copytree(HERE / "interop", target)
    monkeypatch.chdir(target)
    return target


def make_net() -> Net:
    return Net.from_file("tiny.prototxt", Phase.TEST, BuildOptions(create_engine("host")))


def make_solver(kind: str, ending: str) -> Solver:
    form = "HDF5" if ending else "BINARYPROTO"
    options = SolverOptions(resume_data=False)  # as Caffe, which starts its data again
    return Solver.from_file(f"{kind}_{form}.prototxt", create_engine("host"), options)


def values(net: Net) -> dict[str, F32]:
    found = {}
    for node in net.nodes:
        for i, blob in enumerate(node.layer.blobs):
            found[f"{node.layer.name}/{i}"] = blob.data.copy()
    return found


def assert_equal(ours: dict[str, F32], theirs: dict[str, F32]) -> None:
    assert ours.keys() == theirs.keys()
    for key, array in theirs.items():
        np.testing.assert_array_equal(ours[key], array, err_msg=key)


def assert_near(ours: dict[str, F32], theirs: dict[str, F32], tolerance: float) -> None:
    assert ours.keys() == theirs.keys()
    for key, array in theirs.items():
        error = np.linalg.norm(ours[key] - array)
        assert error <= tolerance * np.linalg.norm(array), key


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_weights_of_the_reference_load_bit_for_bit(folder: Path, kind: str, ending: str):
    net = make_net()
    load_weights(net, f"{kind}_iter_5.caffemodel{ending}")
    assert_equal(values(net), EXPECTED[f"{kind}_iter_5.caffemodel"])
    net.close()


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_states_of_the_reference_load_bit_for_bit(folder: Path, kind: str, ending: str):
    state = read_state(Path(f"{kind}_iter_5.solverstate{ending}"))
    history = EXPECTED[f"{kind}_iter_5.solverstate"]
    assert (state.iteration, state.current_step) == (5, 1)
    assert state.learned_net == f"{kind}_iter_5.caffemodel{ending}"
    assert_equal({str(i): array for i, array in enumerate(state.history)}, history)


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_training_continues_from_a_state_of_the_reference(folder: Path, kind: str, ending: str):
    solver = make_solver(kind, ending)
    solver.restore(f"{kind}_iter_5.solverstate{ending}")
    solver.step(3)
    assert_near(values(solver.net), EXPECTED[f"{kind}_iter_8.caffemodel"], 1e-5)
    solver.close()


def test_the_data_layer_reads_a_database_and_mean_of_the_reference(folder: Path):
    net = make_net()
    for batch in range(2):
        net.forward(0, 0)
        for top in ("data", "label"):
            ours, theirs = net.blob(top).data, EXPECTED["tiny.prototxt"][f"{batch}/{top}"]
            np.testing.assert_array_equal(ours, theirs)
    net.close()


def test_our_mean_of_their_database_is_their_mean_file(folder: Path):
    compute_image_mean("digits_lmdb", "ours.binaryproto", backend="lmdb")
    np.testing.assert_allclose(read_mean("ours.binaryproto"), read_mean("mean.binaryproto"), 1e-6)


def test_a_leveldb_of_the_reference_has_the_records_of_its_lmdb(folder: Path):
    pytest.importorskip("plyvel")
    first = open_database("digits_lmdb")
    second = open_database("digits_leveldb", "leveldb")
    assert len(first) == len(second) == 20
    for i in range(20):
        a, b = first.read(i), second.read(i)
        assert a.labels == b.labels
        np.testing.assert_array_equal(a.data, b.data)


def ask(*arguments: str) -> dict[str, F32]:
    """What the reference reads: check_interop.py in the current folder."""
    command = [REFERENCE, str(HERE / "check_interop.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = json.loads(done.stdout)
    return {k: np.array(v, dtype=np.float32).reshape(shape) for k, (shape, v) in printed.items()}


@needs_reference
@pytest.mark.slow
@pytest.mark.parametrize("ending", FORMATS)
def test_the_reference_loads_our_weights_bit_for_bit(folder: Path, ending: str):
    net = make_net()
    save_weights(net, f"ours.caffemodel{ending}", hdf5=bool(ending))
    assert_equal(ask("weights", "tiny.prototxt", f"ours.caffemodel{ending}"), values(net))
    net.close()


@needs_reference
@pytest.mark.slow
@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_the_reference_continues_from_our_state(folder: Path, kind: str, ending: str):
    solver = make_solver(kind, ending)
    solver.param.snapshot_prefix = "ours"
    solver.step(3)
    state = solver.snapshot()
    solver.close()
    ours = make_solver(kind, ending)
    ours.restore(state)
    ours.step(3)
    form = "HDF5" if ending else "BINARYPROTO"
    theirs = ask("resume", f"{kind}_{form}.prototxt", str(state), "3")
    assert_near(values(ours.net), theirs, 1e-5)
    ours.close()


@needs_reference
@pytest.mark.slow
def test_the_reference_reads_our_database(folder: Path):
    shutil.rmtree("digits_lmdb")
    images, labels = digits()
    with create_database("digits_lmdb") as database:
        for i in range(20):
            record = messages.Datum(channels=1, height=8, width=8, label=int(labels[i]))
            record.data = images[i].tobytes()
            database.put(f"{i:08d}", record.SerializeToString())
    assert_equal(ask("data", "tiny.prototxt"), EXPECTED["tiny.prototxt"])
