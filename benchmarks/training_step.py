"""Time of one training step (forward, backward, update), ours beside PyTorch's eager CPU step.

    python benchmarks/training_step.py --peer PYTHON_WITH_TORCH [--nets lenet] [--engines host sw26010:tile]

Each contestant runs in a process of its own with two threads; they take turns, several steps a
turn, and the medians over all turns are compared. Inputs are in memory; data loading is not part.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

MODELS = Path(__file__).parent.parent / "prototxt_models"
BATCH = {"lenet": (64, 1, 28, 28), "cifar10_quick": (100, 3, 32, 32)}

OURS = """
import sys, time
import numpy as np
import swcaffe.layers
from pathlib import Path
from swcaffe.engine.engine import create_engine
from swcaffe.proto import messages
from swcaffe.proto.prototxt import read_net
from swcaffe.solver.solver import Solver

engine, fidelity, path, shape = sys.argv[1], sys.argv[2], sys.argv[3], eval(sys.argv[4])
net = read_net(Path(path)).message
kept = [layer for layer in net.layer if layer.type not in ("Data", "Accuracy")]
del net.layer[:]
data = net.layer.add(name="in", type="Input", top=["data", "label"])
data.input_param.shape.add(dim=shape)
data.input_param.shape.add(dim=shape[:1])
net.layer.extend(kept)
param = messages.SolverParameter(net_param=net, base_lr=0.01, momentum=0.9, weight_decay=0.0005,
                                 lr_policy="fixed", random_seed=1)
options = {"fidelity": fidelity} if engine == "sw26010" else {}
solver = Solver(param, create_engine(engine, threads=2, **options))
rng = np.random.default_rng(0)
solver.net.blob("data").data[...] = rng.random(shape)
solver.net.blob("label").data[...] = rng.integers(0, 10, shape[0])
run = solver.step
"""

TORCH = """
import sys, time
import torch
from torch import nn

torch.set_num_threads(2)
name, shape = sys.argv[3], eval(sys.argv[4])
torch.manual_seed(0)
if "lenet" in name:
    model = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))
else:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=0.0005)
x, y = torch.rand(shape), torch.randint(0, 10, shape[:1])

def run(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
"""

LOOP = """
run(3)
for line in sys.stdin:
    steps = int(line)
    start = time.perf_counter()
    run(steps)
    print((time.perf_counter() - start) / steps, flush=True)
"""


class Contestant:
    """A process that runs steps when told to."""

    def __init__(self, name: str, python: str, code: str, *args: str) -> None:
        self.name = name
        self.times: list[float] = []
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        self._process = subprocess.Popen(
            [python, "-c", code + LOOP, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, "OMP_NUM_THREADS": "2"},
        )

    def turn(self, steps: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        self.times.append(float(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    @property
    def median(self) -> float:
        return statistics.median(self.times)


def compare(net: str, peer: str, turns: int, steps: int, engines: list[str]) -> None:
    path, shape = str(MODELS / net / "train_val.prototxt"), repr(BATCH[net])
    kinds = [tuple(f"{engine}:".split(":")[:2]) for engine in engines]
    contestants = [
        Contestant(
            f"{engine} {fidelity}".strip(), sys.executable, OURS, engine, fidelity, path, shape
        )
        for engine, fidelity in kinds
    ]
    if peer:
        contestants.append(Contestant("PyTorch", peer, TORCH, "", "", path, shape))
    for turn in range(turns):
        for contestant in contestants:
            slow = contestant.name.endswith("mesh")
            if slow and turn >= 3:
                continue
            contestant.turn(1 if slow else steps)
    host = contestants[0].median
    print(f"{net}, batch {BATCH[net][0]}: one training step, median of {turns} turns")
    for contestant in contestants:
        ms, ratio = 1000 * contestant.median, contestant.median / host
        spread = 1000 * (max(contestant.times) - min(contestant.times))
        print(f"  {contestant.name:<14} {ms:9.3f} ms   {ratio:7.3f} of host   (range {spread:.3f})")
        contestant.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default="", help="a python that has torch")
    parser.add_argument("--nets", nargs="+", default=list(BATCH), choices=list(BATCH))
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--engines", nargs="+", default=["host", "sw26010:tile", "sw26010:mesh"])
    args = parser.parse_args()
    for net in args.nets:
        compare(net, args.peer, args.turns, args.steps, args.engines)


if __name__ == "__main__":
    main()
