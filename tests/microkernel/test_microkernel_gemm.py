"""The register-tiled kernel: published cycle counts, and the same numbers in every order."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from swcaffe.errors import ScheduleError
from swcaffe.machine.pipeline import SW26010_PIPELINE, Pipeline
from swcaffe.microkernel.gemm import (
    ACCUMULATORS,
    SCALARS,
    VECTORS,
    Form,
    naive,
    pipelined,
    pipelined_step,
    swdnn,
)
from swcaffe.microkernel.interpret import Cpe
from swcaffe.microkernel.isa import Code, Instruction, Loop, trace
from swcaffe.microkernel.pipeline import cycles, timeline

THREE, FOUR = (SW26010_PIPELINE.with_load_latency(n) for n in (3, 4))
SOURCES = ("local", "send", "receive")
FORMS = [
    Form(vector, scalar, vectorise, contiguous)  # type: ignore[arg-type]
    for vector, scalar, vectorise, contiguous in product(SOURCES, SOURCES, "mn", (False, True))
]
NEAR = Form(contiguous=True)


def loop_of(code: Code) -> Loop:
    return next(item for item in code if isinstance(item, Loop))


def per_step(code: Code, machine: Pipeline) -> float:
    loop = loop_of(code)
    more = replace(loop, times=loop.times + 10)
    return (cycles((more,), machine) - cycles((loop,), machine)) / 10


def test_the_naive_order_takes_26_cycles_with_the_load_latency_of_4() -> None:
    assert per_step(naive(NEAR, 8), FOUR) == 26
    assert cycles((loop_of(naive(NEAR, 1)),), FOUR) == 26


def test_the_naive_order_without_addresses_takes_25_cycles_as_soon_as_loads_take_3() -> None:
    """The compiler's 25 cycles in Fang 2019: nothing but fetches before the first product."""
    loop = loop_of(naive(NEAR, 8))
    bare = Loop(tuple(i for i in loop.body if i.dst not in ("pa", "pb")), 8)  # type: ignore[union-attr]
    assert [cycles((bare,), machine) / 8 for machine in (THREE, FOUR)] == [25, 26]


@pytest.mark.parametrize("steps", [2, 3, 16, 48])
def test_swdnn_order_takes_5_and_17_a_step_and_16_with_the_load_latency_of_4(steps: int) -> None:
    assert cycles(swdnn(NEAR, steps), FOUR) == 5 + 17 * (steps - 1) + 16
    assert cycles(swdnn(NEAR, steps), THREE) == 4 + 17 * (steps - 1) + 16


@pytest.mark.parametrize("machine", [THREE, FOUR], ids=["3", "4"])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_our_order_takes_16_cycles_in_every_role_and_layout(form: Form, machine: Pipeline) -> None:
    code = pipelined(form, 12, machine)
    assert per_step(code, machine) == 16
    assert cycles(code, machine) <= 16 * 12 + 7
    assert pipelined_step(form, machine).stages == 2


def test_our_order_fills_both_pipelines_but_for_one_slot() -> None:
    """Both operands sent, scalars apart: 16 products; 8 fetches, 5 addresses, counter, branch."""
    kernel = loop_of(pipelined(Form("send", "send"), 4, FOUR))
    table = timeline((Loop(kernel.body, 1),), FOUR)
    assert len(table) == 16
    assert [cycle.issued[0].op for cycle in table if cycle.issued[0]] == ["vmad"] * 16
    ops = [cycle.issued[1].op for cycle in table if cycle.issued[1]]
    assert sorted(ops) == ["addl"] * 5 + ["bgt"] + ["lddec"] * 4 + ["subl"] + ["vldr"] * 4


def test_single_precision_without_conversion_takes_25_cycles() -> None:
    """Eight puts that do not overlap with products: 16 of 25 cycles."""
    form = Form("send", "send", contiguous=True, single=True)
    assert per_step(swdnn(form, 8), FOUR) == 25


def test_broadcasts_use_the_rows_for_a_and_the_columns_for_b() -> None:
    for vectorise, wanted in (("m", {"vldr", "lddec"}), ("n", {"vldc", "ldder"})):
        code = naive(Form("send", "send", vectorise), 1)  # type: ignore[arg-type]
        used = {i.op for i in trace(code)}
        assert used & {"vldr", "vldc", "ldder", "lddec"} == wanted


def test_swdnn_order_refuses_what_it_was_not_made_for() -> None:
    with pytest.raises(ScheduleError, match="two steps of k, and contiguous scalars"):
        swdnn(NEAR, 1)
    with pytest.raises(ScheduleError, match="two steps of k, and contiguous scalars"):
        swdnn(Form("local", "local"), 4)


def check(code: Code, form: Form, steps: int) -> None:
    """Run a kernel on random operands: messages and sums must be those of a naive loop."""
    rng = np.random.default_rng(steps)
    a, b = rng.normal(size=(steps, 16)), rng.normal(size=(steps, 4))
    if form.single:
        a, b = a.astype(np.float32).astype(float), b.astype(np.float32).astype(float)
    stored = b if form.contiguous else b.T
    room = np.zeros(64)
    cpe = Cpe(np.concatenate([a.ravel(), room, stored.ravel(), room]))
    c = rng.normal(size=(4, 16))
    for name, value in zip(ACCUMULATORS, c.reshape(16, 4), strict=True):
        cpe.registers[name] = value
    cpe.registers |= {
        "pa": 0,
        "pb": 8 * (a.size + 64),
        "la": 8 * 16,
        "lb": 8 * (4 if form.contiguous else steps),
    }
    row, col = ("row", "col") if form.vectorise == "m" else ("col", "row")
    if form.vector == "receive":
        cpe.arriving[row].extend(a.reshape(-1, 4))
    if form.scalar == "receive":
        cpe.arriving[col].extend(np.repeat(b.reshape(-1, 1), 4, axis=1))
    cpe.run(trace(code))
    if form.vector == "send":
        np.testing.assert_array_equal(np.array(cpe.sent[row][: 4 * steps]).ravel(), a.ravel())
    if form.scalar == "send":
        np.testing.assert_array_equal(np.array(cpe.sent[col][: 4 * steps])[:, 0], b.ravel())
    for k in range(steps):
        c = c + b[k][:, None] * a[k][None, :]
    found = np.array([cpe.registers[name] for name in ACCUMULATORS]).reshape(4, 16)
    np.testing.assert_array_equal(found, c)


@pytest.mark.parametrize("steps", [2, 3, 7])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_order_adds_up_the_same_products(form: Form, steps: int) -> None:
    codes = [naive(form, steps), pipelined(form, steps, FOUR)]
    if form.contiguous or form.scalar == "receive":
        codes.append(swdnn(form, steps))
    for code in codes:
        check(code, form, steps)


@pytest.mark.parametrize("roles", [("send", "send"), ("send", "receive"), ("receive", "send")])
def test_single_precision_kernels_send_and_multiply_floats(roles: tuple[str, str]) -> None:
    form = Form(*roles, contiguous=True, single=True)  # type: ignore[arg-type]
    for code in (naive(form, 4), swdnn(form, 4), pipelined(form, 4, FOUR)):
        check(code, form, 4)


@pytest.mark.parametrize("broken", range(0, 30, 3))
def test_a_kernel_with_two_instructions_exchanged_is_caught(broken: int) -> None:
    """Swap a fetch with the product that uses it."""
    form = Form("send", "send")
    code = list(pipelined(form, 6, FOUR))
    at = next(n for n, item in enumerate(code) if isinstance(item, Loop))
    kernel = code[at]
    assert isinstance(kernel, Loop)
    body = list(kernel.body)
    fetches = [
        n for n, i in enumerate(body) if isinstance(i, Instruction) and i.dst in VECTORS + SCALARS
    ]
    fetch = fetches[broken % len(fetches)]
    reg = body[fetch].dst  # type: ignore[union-attr]
    later = [n for n in range(len(body)) if reg in body[n].srcs]  # type: ignore[union-attr]
    use = next((n for n in later if n > fetch), later[0])
    body[fetch], body[use] = body[use], body[fetch]
    code[at] = replace(kernel, body=tuple(body))
    with pytest.raises(AssertionError, match="not equal"):
        check(tuple(code), form, 6)
