"""What emulation costs: each operator of a training step on sw26010 beside the host engine.

    python benchmarks/sw26010_overhead.py [--nets lenet cifar10_quick] [--mesh]

Engines take turns on the same arrays with two threads; minima are compared. For each operator the
predicted time on one core group of the SW26010 stands beside it, and what bounds it there.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from swcaffe.engine.engine import Engine, create_engine
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.affine import AffineBackwardWeights
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
from swcaffe.operators.update import SgdUpdate


def conv(n: int, ic: int, oc: int, size: int, pad: int, *, first: bool = False) -> list[Operator]:
    g = ConvGeometry(n, ic, oc, (size, size), (5, 5), (1, 1), (pad, pad), (1, 1))
    data = [] if first else [ConvBackwardData(g)]
    return [ConvForward(g), *data, ConvBackwardWeights(g)]


def fully_connected(m: int, n: int, k: int) -> list[Operator]:
    return [
        Gemm(m, n, k, trans_b=True, has_bias=True),
        Gemm(m, k, n),
        Gemm(n, k, m, trans_a=True, accumulate=True),
    ]


def pooled(n: int, c: int, size: int, kernel: int, *, mean: bool = False) -> list[Operator]:
    g = PoolGeometry(n, c, (size, size), (kernel, kernel), (2, 2), (0, 0))
    return (
        [AvePoolForward(g), AvePoolBackward(g)] if mean else [MaxPoolForward(g), MaxPoolBackward(g)]
    )


def relu(count: int) -> list[Operator]:
    return [ActivationForward("relu", count), ActivationBackward("relu", count)]


def updates(*counts: int) -> list[Operator]:
    return [SgdUpdate(count, "L2", 0.9) for count in counts]


NETS = {
    "lenet": [
        *conv(64, 1, 20, 28, 0, first=True),
        *pooled(64, 20, 24, 2),
        *conv(64, 20, 50, 12, 0),
        *pooled(64, 50, 8, 2),
        *fully_connected(64, 500, 800),
        *relu(64 * 500),
        AffineBackwardWeights(64, 500, 1, False, True),
        *fully_connected(64, 10, 500),
        *updates(500, 25000, 400000, 5000),
    ],
    "cifar10_quick": [
        *conv(100, 3, 32, 32, 2, first=True),
        *pooled(100, 32, 32, 3),
        *relu(100 * 32 * 256),
        *conv(100, 32, 32, 16, 2),
        *relu(100 * 32 * 256),
        *pooled(100, 32, 16, 3, mean=True),
        *conv(100, 32, 64, 8, 2),
        *relu(100 * 64 * 64),
        *pooled(100, 64, 8, 3, mean=True),
        *fully_connected(100, 64, 1024),
        *fully_connected(100, 10, 64),
        *updates(2400, 25600, 51200, 65536, 640),
    ],
}


def measure(engines: list[Engine], op: Operator, turns: int) -> list[float]:
    """Best seconds of each engine."""
    rng = np.random.default_rng(0)
    operands = (*op.inputs, *op.outputs)
    arrays = [(rng.random(o.shape) - 0.5).astype(o.dtype) for o in operands]  # places are 0
    best = [float("inf")] * len(engines)
    for _ in range(turns):
        for number, engine in enumerate(engines):
            plan = engine.plan(op)
            start = time.perf_counter()
            plan(*arrays)
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--mesh", action="store_true", help="mesh fidelity instead of tile")
    parser.add_argument("--turns", type=int, default=15)
    args = parser.parse_args()
    fidelity = "mesh" if args.mesh else "tile"
    host = create_engine("host", threads=2)
    sunway = create_engine("sw26010", fidelity=fidelity, threads=2)
    for net in args.nets:
        start = time.perf_counter()
        plans = [sunway.plan(op) for op in NETS[net]]
        print(f"{net}: planned in {time.perf_counter() - start:.2f} s")
        totals = np.zeros(2)
        for op, plan in zip(NETS[net], plans, strict=True):
            times = measure([host, sunway], op, args.turns)
            totals += times
            ms, predicted = [1000 * t for t in times], plan.estimate()
            assert predicted is not None
            print(
                f"  {type(op).__name__:20} host {ms[0]:8.3f} ms  {fidelity} {ms[1]:8.3f} ms "
                f"{ms[1] / ms[0]:6.2f}x   one core group {predicted.seconds * 1e6:7.0f} us, "
                f"{predicted.bound}   {plan.route}"
            )
        print(f"  all: {1000 * totals[0]:.2f} ms, {1000 * totals[1]:.2f} ms, "
              f"{totals[1] / totals[0]:.2f} of host")  # fmt: skip


if __name__ == "__main__":
    main()
