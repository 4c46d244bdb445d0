"""Trainings follow the reference Caffe's: from one start, over one database, with every solver."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from reference.digest import digest, distance, start
from reference.load import training, trainings
from reference.pictures import write_digits

import swcaffe.layers  # noqa: F401  fills the registry
from swcaffe.engine.engine import create_engine
from swcaffe.solver.solver import Solver

HERE = Path(__file__).parent
WEIGHTS_TOLERANCE, WEIGHTS_ITERATIONS = 1e-4, 10
LOSS_TOLERANCE, LOSS_PASSES = 1e-3, 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nets, solvers and databases of all trainings."""
    target = tmp_path_factory.mktemp("training")
    for path in (HERE / "nets").glob("*.prototxt"):
        shutil.copy(path, target)
    for net in ("lenet", "cifar10_quick"):
        write_digits(net, target / f"{net}_lmdb")
    return target


def start_solver(name: str) -> Solver:
    """The solver of a training in the current folder, with the weights all start from."""
    solver = Solver.from_file(f"{name}.prototxt", create_engine("host"))
    for node in solver.net.nodes:
        for i, blob in enumerate(node.layer.blobs):
            blob.data[...] = start(f"{node.layer.name}/{i}", blob.shape)
    return solver


@pytest.mark.slow
@pytest.mark.parametrize("name", trainings())
def test_training_follows_the_reference(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    recorded = training(name)
    solver = start_solver(name)
    losses: list[float] = []
    last = len(solver.net.nodes) - 1

    def note(index: int) -> None:
        if index == last:
            losses.append(float(solver.net.blob("loss").data))

    solver.net.after_forward.append(note)
    try:
        solver.step(WEIGHTS_ITERATIONS)
        blobs = {
            f"{node.layer.name}/{i}": blob.data.copy()
            for node in solver.net.nodes
            for i, blob in enumerate(node.layer.blobs)
        }
        while len(losses) < LOSS_PASSES:
            solver.step(1)
    finally:
        solver.close()
    expected = recorded.digests[WEIGHTS_ITERATIONS]
    assert blobs.keys() == expected.keys()
    for blob, values in blobs.items():
        assert distance(digest(blob, values), expected[blob]) <= WEIGHTS_TOLERANCE, blob
    for blob, theirs in recorded.values.get(WEIGHTS_ITERATIONS, {}).items():
        error = np.linalg.norm(blobs[blob] - theirs) / np.linalg.norm(theirs)
        assert error <= WEIGHTS_TOLERANCE, blob
    parted = np.abs(np.array(losses) - recorded.losses[: len(losses)])
    assert parted.max() <= LOSS_TOLERANCE, f"pass {parted.argmax()}: {parted.max():.2e}"
