"""The network of Sunway TaihuLight. Each figure: value, then (kind) source.

Kinds: published, measured (a published measurement), derived (arithmetic on those), fitted.
[Fang 2019]  J. Fang, doctoral thesis, Tsinghua University, figures 7.2 and 7.7

A message up to 4 KB costs its latency and its bytes at the measured rate; a larger one costs three
latencies, since the protocol switches there (the measured rate has its step at 4 KB): a request,
its answer and the data. That is why 2 (p - 1) small messages of a ring are so slow.
"""

from __future__ import annotations

import numpy as np

from swcaffe.arrays import F64
from swcaffe.parallel.simulate.network import Measured

__all__ = ["ON_CPES", "ON_MPE", "SUPERNODE", "taihulight"]

SUPERNODE = 256  # (published) nodes with full bisection among themselves
ON_CPES = 0.2544e-9  # (fitted) s/B of an addition: topology-aware, 1024 nodes, 512 MB in figure 7.7
ON_MPE = 3.840e-9  # (fitted) s/B: MPI's own allreduce, 512 nodes, 512 MB in figure 7.7
_SWITCH_BYTES = 4096  # (measured) [Fang 2019] figure 7.2
_TRIPS = 3  # (assumed) one-way trips of a message above the switch: request, answer, data
_LATENCY = {1: 5.2119, 8: 5.751, 256: 6.392, 2048: 8.1205, 4096: 10.13}
"""(measured) bytes -> microseconds one way; above 4 KB the figure contradicts its own rates."""
_RATES = (
    # (measured) bytes, GB/s in both directions together: within a supernode; when all its nodes
    # talk to another one
    (1, 0.0045, 0.0045),
    (8, 0.0077, 0.0077),
    (32, 0.0184, 0.0187),
    (64, 0.0317, 0.0324),
    (128, 0.0636, 0.0645),
    (256, 0.116, 0.1155),
    (512, 0.2104, 0.2098),
    (1024, 0.3526, 0.3583),
    (2048, 0.5396, 0.5332),
    (4096, 0.4085, 0.4129),
    (8192, 0.8117, 0.8195),
    (16384, 1.6089, 1.5742),
    (32768, 3.095, 2.3958),
    (65536, 5.0765, 2.9153),
    (131072, 7.1026, 3.0143),
    (262144, 8.5289, 3.0433),
    (524288, 9.3433, 3.1105),
    (1048576, 9.9626, 3.0815),
    (2097152, 10.1872, 3.029),
    (4194304, 10.222, 3.1629),
)


def _latency_s(nbytes: F64) -> F64:
    known, microseconds = np.array(list(_LATENCY)), np.array(list(_LATENCY.values()))
    trips = np.where(nbytes <= _SWITCH_BYTES, 1, _TRIPS)
    found: F64 = 1e-6 * trips * np.interp(np.log(nbytes), np.log(known), microseconds)
    return found


def taihulight(reduce_s_per_byte: float = ON_CPES) -> Measured:
    """The network, with additions on the CPEs or, as MPI itself has them, on the MPE."""
    nbytes, inside, across = np.array(_RATES, np.float64).T
    latency = _latency_s(nbytes)
    inside_s = latency + nbytes / (0.5e9 * inside)
    across_s = np.maximum(inside_s, latency + nbytes / (0.5e9 * across))
    return Measured(
        tuple(nbytes.tolist()),
        tuple(inside_s.tolist()),
        tuple(across_s.tolist()),
        SUPERNODE,
        reduce_s_per_byte,
    )
