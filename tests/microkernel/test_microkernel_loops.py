"""Row kernels and Winograd transforms: their numbers, and what the pipelines make of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from swcaffe.arrays import F64
from swcaffe.errors import ScheduleError
from swcaffe.machine.pipeline import SW26010_PIPELINE
from swcaffe.microkernel.elementwise import KERNELS, best, body, per_vector, rows
from swcaffe.microkernel.interpret import Cpe
from swcaffe.microkernel.isa import OPCODES, Instruction, trace
from swcaffe.microkernel.pipeline import cycles
from swcaffe.microkernel.winograd import AT, BT, input_transform, loop, output_transform

MEANING: dict[str, Callable[[F64], F64]] = {
    "copy": lambda x: x[0],
    "relu": lambda x: np.maximum(x[0], 0),
    "add": lambda x: x[0] + x[1],
    "mul": lambda x: x[0] * x[1],
    "axpy": lambda x: 0.5 * x[0] + x[1],
    "max2": lambda x: x.max(axis=0),
    "max4": lambda x: x.max(axis=0),
}


@pytest.mark.parametrize("vectors", [1, 5, 6, 12, 31])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_row_kernels_compute_their_rows_whatever_the_length(kernel: str, vectors: int) -> None:
    count = KERNELS[kernel].inputs
    x = np.random.default_rng(vectors).normal(size=(count, 4 * vectors)).astype(np.float32)
    ldm = np.concatenate([x.astype(float).ravel(), np.full(4 * vectors, np.nan)])
    pointers = {f"p{i}": 32 * vectors * i for i in range(count)}
    alpha = np.full(4, 0.5)
    cpe = Cpe(ldm, {**pointers, "q": 32 * vectors * count, "alpha": alpha})
    cpe.run(trace(rows(kernel, vectors, SW26010_PIPELINE)))
    want = MEANING[kernel](x.astype(float)).astype(np.float32)
    np.testing.assert_array_equal(cpe.ldm[-4 * vectors :], want)


@pytest.mark.parametrize(
    ("kernel", "bound"),
    [("copy", 2), ("relu", 2), ("add", 3), ("mul", 3), ("axpy", 3), ("max2", 3)],
)
def test_row_kernels_come_within_half_a_cycle_of_their_loads_and_stores(
    kernel: str, bound: int
) -> None:
    found = per_vector(*best(kernel, SW26010_PIPELINE))
    assert bound < found <= bound + 0.5
    long = (cycles(rows(kernel, 612, SW26010_PIPELINE), SW26010_PIPELINE) - 40) / 612
    assert long <= found


def test_an_unknown_row_kernel_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ScheduleError, match=r"unknown row kernel 'coppy' .did you mean 'copy'"):
        body("coppy", 1)


def pipes(code: tuple[Instruction, ...]) -> tuple[int, int]:
    floats = sum(OPCODES[i.op].group == "float" for i in code)
    return floats, len(code) - floats


def test_transforms_have_the_published_counts() -> None:
    """Fang 2019: 48 additions, 16 loads and 16 stores; by columns and rows 32 additions do."""
    assert pipes(input_transform(direct=True)) == (48, 32)
    assert pipes(input_transform()) == (32, 32)
    assert pipes(output_transform()) == (24, 20)


@pytest.mark.parametrize(
    ("code", "matrix"),
    [(input_transform(), BT), (input_transform(direct=True), BT), (output_transform(), AT)],
    ids=["input", "direct", "output"],
)
def test_transforms_compute_their_matrices(code: tuple[Instruction, ...], matrix: object) -> None:
    m = np.array(matrix, float)
    d = np.random.default_rng(3).integers(-9, 9, size=(5, 4, 4, 4)).astype(float)
    size = m.shape[0] ** 2 * 4
    cpe = Cpe(np.concatenate([d.ravel(), np.zeros(5 * size)]), {"p": 0, "q": 8 * d.size, "k": 5})
    cpe.run(trace(loop(code, 5, SW26010_PIPELINE)))
    want = np.einsum("ir,trcl,jc->tijl", m, d, m)
    np.testing.assert_array_equal(cpe.ldm[d.size :].reshape(want.shape), want)


@pytest.mark.parametrize(
    ("code", "settled"),
    [(input_transform(direct=True), 64), (input_transform(), 52), (output_transform(), 44)],
    ids=["direct", "input", "output"],
)
def test_transforms_wait_for_latencies_beyond_their_pipelines(
    code: tuple[Instruction, ...], settled: int
) -> None:
    """A tile's 16 registers leave none for the next tile: chains of additions are not hidden."""
    assert cycles(loop(code, 50, SW26010_PIPELINE), SW26010_PIPELINE) == 50 * settled
    assert settled > max(pipes(code))
