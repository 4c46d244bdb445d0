"""Selection of the largest 0.1 % of 16 M floats: how many times faster than partitioning all.

    python benchmarks/parallel_selection.py [millions of elements]

Alternating runs, medians of seven; prints the factor over `np.partition(abs(x))` and what was sent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from swcaffe.parallel.compressors import COMPRESSORS, Gathering
from swcaffe.parallel.selection import top_k

DENSITY = 0.001
REPEATS = 7


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    count = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 16 << 20
    flat = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    k = int(count * DENSITY)
    works: dict[str, Callable[[], object]] = {
        "np.partition": lambda: np.partition(np.abs(flat), count - k),
        "exact top_k": lambda: top_k(flat, k),
    }
    sent = {"np.partition": k, "exact top_k": top_k(flat, k).size}
    for name in ("topk", "threshold", "sampled"):
        compressor = COMPRESSORS.get(name)(DENSITY)
        assert isinstance(compressor, Gathering)
        state = compressor.new_state((count,))
        sent[name] = compressor.sent(compressor.encode(flat, state), count).size
        works[name] = lambda c=compressor, s=state: c.encode(flat, s)
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(REPEATS):
        for name, work in works.items():
            times[name].append(timed(work))
    base = median(times["np.partition"])
    print(f"{count} elements, k = {k}")
    for name, found in times.items():
        t = median(found)
        print(f"{name:14s} {1e3 * t:8.1f} ms  {base / t:5.1f} x  {sent[name] / k:.3f} k sent")


if __name__ == "__main__":
    main()
