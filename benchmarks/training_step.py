"""Time of one training step (forward, backward, update), ours beside PyTorch's eager CPU step.

    python benchmarks/training_step.py --peer PYTHON_WITH_TORCH [--nets lenet] [--engines host sw26010:tile]

Each contestant runs in a process of its own with two threads; they take turns, several steps a
turn, and the medians over all turns are compared. Inputs are in memory; data loading is not part.
For nets larger than LeNet and CIFAR-10 quick ask for few turns of one step on the host engine:

    … --nets alexnet googlenet resnet50 lstm_lm --engines host --turns 5 --steps 1
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from swcaffe.proto.messages import Message
from swcaffe.proto.prototxt import read_net

MODELS = Path(__file__).parent.parent / "prototxt_models"
Inputs = dict[str, tuple[tuple[int, ...], int]]


def pictures(n: int, channels: int, size: int, classes: int = 1000) -> Inputs:
    return {"data": ((n, channels, size, size), 0), "label": ((n,), classes)}


INPUTS: dict[str, Inputs] = {
    "lenet": pictures(64, 1, 28, 10),
    "cifar10_quick": pictures(100, 3, 32, 10),
    "alexnet": pictures(32, 3, 227),
    "googlenet": pictures(16, 3, 224),
    "resnet50": pictures(16, 3, 224),
    "lstm_lm": {"cont": ((20, 20), 2), "input": ((20, 20), 10000), "target": ((20, 20), 10000)},
}
"""Input blobs of a net: shape, and how many whole numbers they are from (0: real numbers)."""
SMALL = ("lenet", "cifar10_quick")

OURS = """
import json, sys, time
import numpy as np
import swcaffe.layers
from swcaffe.engine.engine import create_engine
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse
from swcaffe.solver.solver import Solver

engine, fidelity = sys.argv[1], sys.argv[2]
param = messages.SolverParameter(net_param=parse(sys.argv[3], messages.NetParameter).message,
                                 base_lr=0.001, momentum=0.9, weight_decay=0.0005,
                                 lr_policy="fixed", random_seed=1)
options = {"fidelity": fidelity} if engine == "sw26010" else {}
solver = Solver(param, create_engine(engine, threads=2, **options))
rng = np.random.default_rng(0)
for name, (shape, count) in json.loads(sys.argv[4]).items():
    values = rng.integers(0, count, shape) if count else rng.random(shape)
    solver.net.blob(name).data[...] = values
run = solver.step
run(1)
for line in sys.stdin:
    steps = int(line)
    start = time.perf_counter()
    run(steps)
    print((time.perf_counter() - start) / steps, flush=True)
"""


def training_net(name: str) -> Message:
    """The net of the training phase without accuracies, its data layer replaced by an Input."""
    net = read_net(MODELS / name / "train_val.prototxt").message
    kept = [layer for layer in net.layer if layer.type not in (*DATA, "Accuracy")]
    del net.layer[:]
    data = net.layer.add(name="in", type="Input", top=list(INPUTS[name]))
    for shape, _ in INPUTS[name].values():
        data.input_param.shape.add(dim=shape)
    net.layer.extend(kept)
    return net


DATA = ("Data", "HDF5Data", "ImageData")


def first(values: Sequence[int], default: int) -> int:
    return values[0] if values else default


def described(layer: Message) -> list[object]:
    """A layer as torch_net.py reads it: type, bottoms, tops, numbers."""
    v: dict[str, object] = {}
    if layer.type == "Convolution":
        c = layer.convolution_param
        v = {"kernel": first(c.kernel_size, 1), "stride": first(c.stride, 1)}
        v |= {"pad": first(c.pad, 0), "num_output": c.num_output}
        v |= {"group": c.group, "bias": c.bias_term}
    elif layer.type == "Pooling":
        q = layer.pooling_param
        v = {"kernel": q.kernel_size, "stride": q.stride, "pad": q.pad}
        v |= {"max": q.pool == q.MAX, "global": q.global_pooling}
    elif layer.type == "InnerProduct":
        i = layer.inner_product_param
        v = {"num_output": i.num_output, "axis": i.axis}
    elif layer.type == "LRN":
        r = layer.lrn_param
        v = {"size": r.local_size, "alpha": r.alpha, "beta": r.beta, "k": r.k}
    elif layer.type == "Embed":
        e = layer.embed_param
        v = {"input_dim": e.input_dim, "num_output": e.num_output}
    elif layer.type == "LSTM":
        v = {"num_output": layer.recurrent_param.num_output}
    elif layer.type == "Dropout":
        v = {"ratio": layer.dropout_param.dropout_ratio}
    elif layer.type == "SoftmaxWithLoss":
        v = {"axis": layer.softmax_param.axis, "weight": first(layer.loss_weight, 1)}
    return [layer.type, list(layer.bottom), list(layer.top), v]


class Contestant:
    """A process that runs steps when told to."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.times: list[float] = []
        environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
        self._process = subprocess.Popen(
            command,
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
    message, inputs = training_net(net), json.dumps(INPUTS[net])
    contestants = []
    for engine, fidelity in (f"{engine}:".split(":")[:2] for engine in engines):
        command = [sys.executable, "-c", OURS, engine, fidelity, str(message), inputs]
        contestants.append(Contestant(f"{engine} {fidelity}".strip(), command))
    if peer:
        layers = json.dumps([described(layer) for layer in message.layer[1:]])
        script = str(Path(__file__).parent / "torch_net.py")
        contestants.append(Contestant("PyTorch", [peer, script, layers, inputs]))
    for turn in range(turns):
        for contestant in contestants:
            slow = contestant.name.endswith("mesh")
            if slow and turn >= 3:
                continue
            contestant.turn(1 if slow else steps)
    host = contestants[0].median
    batch = next(iter(INPUTS[net].values()))[0][0]
    print(f"{net}, batch {batch}: one training step, median of {turns} turns")
    for contestant in contestants:
        ms, ratio = 1000 * contestant.median, contestant.median / host
        spread = 1000 * (max(contestant.times) - min(contestant.times))
        print(f"  {contestant.name:<14} {ms:9.3f} ms   {ratio:7.3f} of host   (range {spread:.3f})")
        contestant.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default="", help="a python that has torch")
    parser.add_argument("--nets", nargs="+", default=list(SMALL), choices=list(INPUTS))
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--engines", nargs="+", default=["host", "sw26010:tile", "sw26010:mesh"])
    args = parser.parse_args()
    for net in args.nets:
        compare(net, args.peer, args.turns, args.steps, args.engines)


if __name__ == "__main__":
    main()
