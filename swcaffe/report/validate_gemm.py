"""The register kernel and the product in the LDMs against published cycles and rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from swcaffe.machine.pipeline import SW26010_PIPELINE, Pipeline
from swcaffe.machine.sw26010 import SW26010
from swcaffe.microkernel.gemm import Form, naive, pipelined, swdnn
from swcaffe.microkernel.isa import Code, Loop
from swcaffe.microkernel.pipeline import cycles, timeline
from swcaffe.microkernel.spm_gemm import TILE, spm_gemm_cycles, step_cost
from swcaffe.report.table import Bound, Row, Table, published

__all__ = ["best_products", "ldm_products", "micro_kernel"]

NEAR = Form(contiguous=True)
"""Operands in the own LDM, scalars side by side: no address but one for each operand."""
SENT = Form("send", "send")
FLOATS = Form("send", "send", contiguous=True, single=True)
STEPS = 16
"""k = 128, a sixteenth of it in every CPE of a row."""


def micro_kernel(machine: Pipeline = SW26010_PIPELINE) -> Table:
    """Cycles of the kernel's orders, simulated with the load latency that each row names."""
    data = published("micro_kernel")
    rows = []
    for line in data.rows:
        latency = line["load_latency"]
        ours = _CASES[line["case"]](machine.with_load_latency(int(latency)))
        rows.append(Row((line["case"], latency), float(line["cycles"]), ours))
    return Table(
        "micro_kernel",
        "Micro-kernel",
        data.source,
        "cycles",
        ("case", "load latency"),
        tuple(rows),
        (Bound("worst", 0.0),),
        "Instruction lists are generated and go cycle by cycle through the two pipelines. Both "
        "published load latencies are needed: 4 for the 26 cycles, and for the 5 before the first "
        "product of swDNN's order (4 with 3); 3 for the compiler's 25. The other rows hold with "
        "either. That the compiler's loop has no address arithmetic is assumed. 17 cycles a step "
        "mean that a branch is not issued together with what follows it, which no source says.",
    )


def _settled(code: Code, machine: Pipeline) -> float:
    """Cycles of one more iteration of the loop in `code`."""
    loop = next(item for item in code if isinstance(item, Loop))
    few, many = (cycles((replace(loop, times=n),), machine) for n in (10, 20))
    return (many - few) / 10


def _bare(code: Code) -> Code:
    """Without the steps of addresses."""
    loop = next(item for item in code if isinstance(item, Loop))
    body = tuple(i for i in loop.body if isinstance(i, Loop) or i.dst not in ("pa", "pb"))
    return (replace(loop, body=body),)


def _start(machine: Pipeline) -> float:
    """Cycles before the first product of swDNN's order."""
    return next(
        cycle.number
        for cycle in timeline(swdnn(NEAR, STEPS), machine)
        if any(i is not None and i.op == "vmad" for i in cycle.issued)
    )


def _whole(machine: Pipeline, steps: int = STEPS) -> float:
    return cycles(swdnn(NEAR, steps), machine)


def _last(machine: Pipeline) -> float:
    """What is left of two steps beside the start and one iteration."""
    return _whole(machine, 2) - _start(machine) - _settled(swdnn(NEAR, STEPS), machine)


_CASES: dict[str, Callable[[Pipeline], float]] = {
    "naive order, a step": lambda machine: _settled(naive(NEAR, STEPS), machine),
    "the compiler's order, a step": lambda machine: _settled(_bare(naive(NEAR, STEPS)), machine),
    "swDNN's order, start": _start,
    "swDNN's order, a step": lambda machine: _settled(swdnn(NEAR, STEPS), machine),
    "swDNN's order, last step": _last,
    "swDNN's order, k = 128 on 8 CPEs": _whole,
    "final order, a step": lambda machine: _settled(pipelined(SENT, STEPS, machine), machine),
    "single precision, a step": lambda machine: _settled(swdnn(FLOATS, STEPS), machine),
}
"""Row of the published file -> our cycles."""


def _gflops(m: int, n: int, k: int) -> float:
    spent = spm_gemm_cycles(m, n, k, SW26010_PIPELINE, SW26010.mesh.rows)
    return 2e-9 * m * n * k * SW26010.mesh.clock_hz / spent


def ldm_products() -> Table:
    """Figure 4.8: rates of products whose operands lie in the LDMs."""
    data = published("ldm_gemm")
    rows = []
    for line in data.rows:
        m, n, k = (int(line[name]) for name in "MNK")
        rows.append(Row((str(m), str(n), str(k)), float(line["gflops"]), _gflops(m, n, k)))
    cost = step_cost(SW26010_PIPELINE, STEPS)
    step, row, tile = _fit(tuple(rows), cost.k)
    return Table(
        "ldm_products",
        "Product in the LDMs",
        data.source,
        "GFLOPS",
        ("m", "n", "k"),
        tuple(rows),
        (Bound("mean", 0.04), Bound("worst", 0.10)),
        "The code of four CPEs that stand for all 64 is simulated with the messages between them; "
        "nothing is fitted. The simulation equals, cycle for cycle, the closed form "
        f"8 ({cost.step} + m/128 ({cost.row} + n/32 ({cost.tile} + {cost.k} k/8))): of a tile's "
        f"{cost.tile} cycles, 32 load and store C. A least-squares fit of the first three terms "
        f"to the published rates gives {step:.0f}, {row:.0f} and {tile:.0f}: what is missing are "
        f"{tile - cost.tile:.0f} cycles a tile, so that small k comes out too fast.",
    )


def _fit(rows: tuple[Row, ...], k_cycles: int) -> tuple[float, ...]:
    """Cycles of a step, a row and a tile that fit published rates best, by relative error."""
    mesh, clock = SW26010.mesh.rows, SW26010.mesh.clock_hz
    terms, spent = [], []
    for row in rows:
        m, n, k = map(int, row.case)
        total = 2e-9 * m * n * k * clock / row.target / mesh
        many, tiles = m / (TILE[0] * mesh), n / (TILE[1] * mesh)
        terms.append([1 / total, many / total, many * tiles / total])
        spent.append(1 - many * tiles * k_cycles * k / mesh / total)
    return tuple(np.linalg.lstsq(np.array(terms), np.array(spent), rcond=None)[0].tolist())


def best_products() -> Table:
    """The best of the shapes that fit, and how many exceed 500 GFLOPS."""
    rates = [_gflops(*shape) for shape in _fitting()]
    share = sum(rate > 500 for rate in rates) / len(rates)
    rows = (
        Row(("best shape, GFLOPS",), 722.95, max(rates)),
        Row(("shapes above 500 GFLOPS, %",), 76.1, 100 * share),
    )
    return Table(
        "best_products",
        "Product in the LDMs, all shapes",
        "J. Fang, doctoral thesis, Tsinghua University, 2019, section 4.2, printed",
        "see row",
        ("figure",),
        rows,
        (Bound("worst", 0.005),),
        f"Which 1505 shapes were measured is not published. Ours are the {len(rates)} with m, n "
        "and k in multiples of 128, 32 and 32 whose A and B fit the LDM twice, for double "
        "buffering, and C once, in double precision.",
    )


def _fitting() -> list[tuple[int, int, int]]:
    words = SW26010.ldm.usable_bytes * SW26010.mesh.cpes // 8
    shapes = []
    for m in range(128, words, 128):
        for n in range(32, words // m + 1, 32):
            most = (words - m * n) // (2 * (m + n))
            shapes += [(m, n, k) for k in range(32, most + 1, 32)]
    return shapes
