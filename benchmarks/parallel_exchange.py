"""Time and bytes of exchanging one gradient, dense and by every compressor, under mpiexec.

    mpiexec -n 4 python benchmarks/parallel_exchange.py [millions of elements] [names …]

Names are algorithms of dense sums and compressors; all of both if none is given.

Medians of five exchanges after one to warm up, rank 0's; "x dense" is the factor over our own dense
sum by the fastest algorithm of the same run.
"""

from __future__ import annotations

import sys
import time
from statistics import median

import numpy as np

from swcaffe.parallel.allreduce import ALGORITHMS
from swcaffe.parallel.bucket import Tensor, fill_buckets
from swcaffe.parallel.communicator import Communicator
from swcaffe.parallel.compressors import COMPRESSORS
from swcaffe.parallel.exchange import Exchange
from swcaffe.parallel.mpi import MpiCommunicator
from swcaffe.parallel.residual import Residual

DENSITY = 0.001
REPEATS = 5


def measure(comm: Communicator, exchange: Exchange, fresh: np.ndarray) -> tuple[float, str]:
    """(median seconds of an exchange, the statistics' line)."""
    times = []
    for repeat in range(REPEATS + 1):
        for bucket in exchange.buckets:
            for slot in bucket.slots:
                bucket.flat[slot.place] = fresh[: slot.tensor.count]
        comm.barrier()
        start = time.perf_counter()
        for bucket in exchange.buckets:
            exchange.push(bucket)
        exchange.wait()
        times.append(time.perf_counter() - start)
        if repeat == 0:
            exchange.statistics = type(exchange.statistics)()
    exchange.close()
    return median(times[1:]), exchange.statistics.report()


def main() -> None:
    comm = MpiCommunicator()
    count = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 10_000_000
    kinds = sys.argv[2:] or [*ALGORITHMS, "native", *(n for n in COMPRESSORS if n != "none")]
    shape = (1000, count // 1000)
    fresh = np.random.default_rng(comm.rank).standard_normal(count).astype(np.float32)
    dense = np.inf
    for kind in kinds:
        compressed = kind in COMPRESSORS
        buckets = fill_buckets([Tensor("w", shape, dense=not compressed)])
        residuals = {}
        if compressed:
            residuals["w"] = Residual("w", shape, COMPRESSORS.get(kind)(DENSITY))
        algorithm = "ring" if compressed else kind
        seconds, report = measure(
            comm, Exchange(comm, buckets, residuals, algorithm=algorithm), fresh
        )
        dense = dense if compressed else min(dense, seconds)
        if comm.rank == 0:
            print(f"{kind:17s} {1e3 * seconds:9.1f} ms {dense / seconds:6.1f} x dense  {report}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
