"""The shipped nets train alike on every engine: same start, same pictures, same losses."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from reference.pictures import write_digits

import swcaffe.layers  # noqa: F401  fills the registry
from swcaffe.engine.engine import create_engine
from swcaffe.solver.solver import Solver

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-3
"""Of a loss of about 2.3 that falls: what the engines may part in, summing in other orders."""

SOLVER = """
net: "{folder}/net.prototxt" base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005
lr_policy: "inv" gamma: 0.0001 power: 0.75 random_seed: 1701
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LeNet as it ships, batch 64, on the digits that ship."""
    target = tmp_path_factory.mktemp("engines")
    write_digits("lenet", target / "db")
    text = (ROOT / "prototxt_models/lenet/train_val.prototxt").read_text(encoding="utf-8")
    (target / "net.prototxt").write_text(
        text.replace("data/mnist/mnist_train_lmdb", f"{target}/db"), encoding="utf-8"
    )
    (target / "solver.prototxt").write_text(SOLVER.format(folder=target), encoding="utf-8")
    return target


@cache
def losses(folder: Path, engine: str, iterations: int, fidelity: str = "") -> list[float]:
    """Loss of each iteration."""
    options: dict[str, object] = {"fidelity": fidelity} if fidelity else {}
    solver = Solver.from_file(folder / "solver.prototxt", create_engine(engine, **options))
    found: list[float] = []
    solver.listeners.append(lambda event: found.append(float(str(event["loss"]))))
    try:
        solver.step(iterations)
    finally:
        solver.close()
    assert len(found) == iterations
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("fidelity", "iterations"), [("tile", 100), ("mesh", 20)])
def test_lenet_trains_on_the_sw26010_as_on_the_host(
    folder: Path, fidelity: str, iterations: int
) -> None:
    """The first 100 losses at tile fidelity, the first 20 at mesh fidelity."""
    host = losses(folder, "host", 100)
    assert host[-1] < 0.5 * host[0]
    sunway = losses(folder, "sw26010", iterations, fidelity)
    parted = np.abs(np.array(sunway) - host[:iterations])
    assert parted.max() <= TOLERANCE, f"iteration {parted.argmax()}: {parted.max():.2e}"
    assert parted.max() > 0 or fidelity == "tile", "the mesh computes otherwise than the host"
