"""Time of each operator of LeNet and CIFAR-10 quick on the host engine, beside PyTorch's.

    python benchmarks/host_operators.py [--peer PYTHON_WITH_TORCH] [--threads 2] [--nets lenet cifar] [--best]

Both sides run in turn, some runs each, in processes of their own; the table gives the median of
all runs in milliseconds (--best: the fastest; --threads 1: CPU time of the thread, which other work
on the machine leaves alone). OPENBLAS_* settings of the environment do not concern either side.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from swcaffe.engine.engine import create_engine
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.base import Operator
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.pooling import (
    AvePoolBackward,
    AvePoolForward,
    MaxPoolBackward,
    MaxPoolForward,
    PoolGeometry,
)
from swcaffe.operators.softmax import SoftmaxLossBackward, SoftmaxLossForward
from swcaffe.operators.update import SgdUpdate

Sizes = tuple[int, ...]
Typical = Callable[[list[float]], float]


def convolution(
    part: str, n: int, ic: int, oc: int, size: int, k: int, stride: int, pad: int, groups: int
):
    g = ConvGeometry(n, ic, oc, (size,) * 2, (k,) * 2, (stride,) * 2, (pad,) * 2, (1, 1), groups)
    return [
        {"forward": ConvForward, "data": ConvBackwardData, "weights": ConvBackwardWeights}[part](g)
    ]


def linear(part: str, m: int, n: int, k: int):
    if part == "forward":
        return [Gemm(m, n, k, trans_b=True, has_bias=True)]
    if part == "data":
        return [Gemm(m, k, n)]
    return [Gemm(n, k, m, trans_a=True, accumulate=True), Gemm(1, n, m, accumulate=True)]


def pool(part: str, n: int, c: int, size: int, k: int, stride: int, pad: int):
    g = PoolGeometry(n, c, (size,) * 2, (k,) * 2, (stride,) * 2, (pad,) * 2)
    return [(MaxPoolForward if part == "forward" else MaxPoolBackward)(g)]


def mean(part: str, n: int, c: int, size: int, k: int, stride: int, pad: int):
    g = PoolGeometry(n, c, (size,) * 2, (k,) * 2, (stride,) * 2, (pad,) * 2)
    return [(AvePoolForward if part == "forward" else AvePoolBackward)(g)]


def relu(part: str, count: int):
    return [(ActivationForward if part == "forward" else ActivationBackward)("relu", count)]


def softmax_loss(part: str, n: int, c: int):
    return [(SoftmaxLossForward if part == "forward" else SoftmaxLossBackward)(n, c, 1)]


def sgd(part: str, *counts: int):
    return [SgdUpdate(count, momentum=0.9) for count in counts]


KINDS: dict[str, Callable[..., list[Operator]]] = {
    "conv": convolution,
    "linear": linear,
    "max": pool,
    "ave": mean,
    "relu": relu,
    "softmax_loss": softmax_loss,
    "sgd": sgd,
}

LENET = [
    ("conv", (64, 1, 20, 28, 5, 1, 0, 1), "first"),
    ("max", (64, 20, 24, 2, 2, 0), ""),
    ("conv", (64, 20, 50, 12, 5, 1, 0, 1), ""),
    ("max", (64, 50, 8, 2, 2, 0), ""),
    ("linear", (64, 500, 800), ""),
    ("relu", (64 * 500,), ""),
    ("linear", (64, 10, 500), ""),
    ("softmax_loss", (64, 10), ""),
    ("sgd", (500, 20, 25000, 50, 400000, 500, 5000, 10), "update"),
]
CIFAR = [
    ("conv", (100, 3, 32, 32, 5, 1, 2, 1), "first"),
    ("max", (100, 32, 32, 3, 2, 0), ""),
    ("relu", (100 * 32 * 256,), ""),
    ("conv", (100, 32, 32, 16, 5, 1, 2, 1), ""),
    ("relu", (100 * 32 * 256,), ""),
    ("ave", (100, 32, 16, 3, 2, 0), ""),
    ("conv", (100, 32, 64, 8, 5, 1, 2, 1), ""),
    ("relu", (100 * 64 * 64,), ""),
    ("ave", (100, 64, 8, 3, 2, 0), ""),
    ("linear", (100, 64, 1024), ""),
    ("linear", (100, 10, 64), ""),
    ("softmax_loss", (100, 10), ""),
    ("sgd", (2400, 32, 25600, 32, 51200, 64, 65536, 64, 640, 10), "update"),
]
LARGE = [
    ("conv", (16, 64, 64, 56, 3, 1, 1, 1), ""),
    ("conv", (16, 256, 256, 14, 3, 1, 1, 1), ""),
    ("conv", (16, 512, 512, 7, 3, 1, 1, 1), ""),
    ("conv", (16, 128, 128, 28, 3, 2, 1, 1), ""),
    ("conv", (16, 256, 64, 56, 1, 1, 0, 1), ""),
    ("conv", (16, 96, 256, 27, 5, 1, 2, 2), ""),
    ("conv", (16, 3, 96, 227, 11, 4, 0, 1), "first"),
    ("conv", (8, 32, 32, 112, 3, 1, 1, 32), ""),
    ("conv", (8, 32, 32, 112, 3, 1, 1, 1), ""),
    ("linear", (64, 4096, 9216), ""),
]
NETS = {"lenet": LENET, "cifar": CIFAR, "large": LARGE}


def parts(kind: str, role: str) -> tuple[str, ...]:
    """The computations of a layer in a training step."""
    if role == "update":
        return ("update",)
    if kind in ("conv", "linear"):
        return ("forward", "weights") if role == "first" else ("forward", "data", "weights")
    return ("forward", "backward")


class Peer:
    """The torch process; without one every time is nan."""

    def __init__(self, python: str | None, threads: int) -> None:
        self._process = None
        if python:
            script = str(Path(__file__).parent / "torch_peer.py")
            self._process = subprocess.Popen(
                [python, script, str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )

    def seconds(self, kind: str, part: str, sizes: Sizes, runs: int) -> list[float]:
        if self._process is None:
            return [float("nan")]
        self._process.stdin.write(json.dumps([kind, part, *sizes, runs]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def clock(threads: int) -> Callable[[], float]:
    """Wall time, or what one thread spent."""
    return time.thread_time if threads == 1 else time.perf_counter


def ours(engine, kind: str, part: str, sizes: Sizes) -> Callable[[int], list[float]]:
    rng = np.random.default_rng(0)
    calls = []
    for op in KINDS[kind](part, *sizes):
        arrays = []
        for operand in (*op.inputs, *op.outputs):
            array = rng.standard_normal(operand.shape).astype(operand.dtype)
            if operand.name in ("labels", "index"):
                array[...] = rng.integers(0, 4, operand.shape)
            arrays.append(array)
        calls.append((engine.plan(op), arrays))

    def run(runs: int) -> list[float]:
        seconds, now = [], clock(engine.threads)
        for _ in range(runs):
            start = now()
            for plan, arrays in calls:
                plan(*arrays)
            seconds.append(now() - start)
        return seconds

    run.flops = sum(plan.op.flops for plan, _ in calls)
    run.route = calls[0][0].route
    return run


def measure(
    engine, peer: Peer, net: str, rounds: int, typical: Typical
) -> Iterator[tuple[str, str, float, float]]:
    for kind, sizes, role in NETS[net]:
        for part in parts(kind, role):
            run = ours(engine, kind, part, sizes)
            warm = max(run(3)[1:])
            runs = max(1, min(20, int(0.05 / warm)))
            peer.seconds(kind, part, sizes, 3)
            mine: list[float] = []
            theirs: list[float] = []
            for _ in range(rounds):
                mine += run(runs + 1)[1:]
                time.sleep(0.01)
                theirs += peer.seconds(kind, part, sizes, runs + 1)[1:]
                time.sleep(0.01)
            a, b = typical(mine), typical(theirs)
            label = f"{kind} {part} {'x'.join(map(str, sizes[:4]))}"
            print(
                f"{label:40s} {run.route:32s} {a * 1e3:8.3f} {b * 1e3:8.3f} {a / b:6.2f}"
                f" {run.flops / a / 1e9:7.1f}",
                flush=True,
            )
            yield kind, part, a, b


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="a Python that has torch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nets", nargs="+", default=["lenet", "cifar"], choices=list(NETS))
    parser.add_argument("--best", action="store_true", help="best run, on a busy machine")
    args = parser.parse_args()
    typical = min if args.best else statistics.median
    engine, peer = create_engine("host", threads=args.threads), Peer(args.peer, args.threads)
    for net in args.nets:
        print(f"{net:40s} {'route':32s} {'ms':>8s} {'torch ms':>8s} {'ratio':>6s} {'GFLOP/s':>7s}")
        rows = list(measure(engine, peer, net, args.rounds, typical))
        a, b = sum(r[2] for r in rows), sum(r[3] for r in rows)
        print(f"{net + ': sum':40s} {'':32s} {a * 1e3:8.3f} {b * 1e3:8.3f} {a / b:6.2f}\n")


if __name__ == "__main__":
    main()
