"""The sw26010 engine: schedules, the MPE for the rest, estimates, and what it says of itself."""

from __future__ import annotations

import numpy as np
import pytest

from swcaffe.cost.count import count
from swcaffe.engine.engine import create_engine
from swcaffe.engine.sw26010.plan import ProgramPlan
from swcaffe.errors import EngineError
from swcaffe.operators.convolution import (
    ConvBackwardData,
    ConvBackwardWeights,
    ConvForward,
    ConvGeometry,
)
from swcaffe.operators.gemm import Gemm
from swcaffe.operators.softmax import SoftmaxForward

GEOMETRY = ConvGeometry(4, 3, 5, (6, 7), (3, 3), (1, 1), (1, 1), (1, 1))
OPERATORS = [
    Gemm(9, 17, 13, trans_b=True, has_bias=True),
    Gemm(9, 17, 13, trans_a=True, accumulate=True),
    ConvForward(GEOMETRY),
    ConvBackwardData(GEOMETRY),
    ConvBackwardWeights(GEOMETRY),
]


@pytest.fixture(scope="module", params=["tile", "mesh"])
def engine(request):
    return create_engine("sw26010", fidelity=request.param, threads=2)


def arrays_of(op):
    rng = np.random.default_rng(1)
    operands = (*op.inputs, *op.outputs)
    return [rng.standard_normal(o.shape).astype(o.dtype) for o in operands]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: type(op).__name__)
def test_scheduled_operators_equal_their_definition(engine, op):
    arrays, wanted = arrays_of(op), arrays_of(op)
    plan = engine.plan(op)
    assert isinstance(plan, ProgramPlan)
    plan(*arrays)
    op.run_reference(*wanted)
    for found, reference in zip(arrays, wanted, strict=True):
        error = np.linalg.norm(found - reference) / np.linalg.norm(reference)
        assert error <= op.tolerance()


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: type(op).__name__)
def test_estimates_say_what_bounds_the_operator(engine, op):
    estimate = engine.plan(op).estimate()
    assert estimate.flops == op.flops
    assert estimate.seconds >= max(estimate.resources.values())
    assert estimate.bound in ("P0", "P1", "DMA", "register bus", "launch")
    assert estimate.dma_bytes >= sum(operand.nbytes for operand in op.outputs)


def test_mesh_fidelity_reports_the_events_of_its_last_run():
    engine = create_engine("sw26010", fidelity="mesh")
    op = OPERATORS[0]
    plan = engine.plan(op)
    assert plan.counters is None
    plan(*arrays_of(op))
    assert plan.counters.dma_bytes == plan.estimate().dma_bytes


def test_operator_without_a_schedule_runs_on_the_host_and_is_booked_as_mpe_time(engine):
    op = SoftmaxForward(10, 100, 1)
    arrays, wanted = arrays_of(op), arrays_of(op)
    plan = engine.plan(op)
    plan(*arrays)
    op.run_reference(*wanted)
    assert np.allclose(arrays[1], wanted[1], rtol=op.tolerance())
    assert plan.route.startswith("MPE: host")
    assert "no schedule for this operator" in plan.explain()
    estimate = plan.estimate()
    assert (estimate.bound, estimate.dma_bytes) == ("MPE", 0)
    assert estimate.seconds == pytest.approx(5000 / 1.45e9)


def test_operator_that_every_schedule_refuses_says_why(engine):
    g = ConvGeometry(1, 1, 1, (3, 3, 3), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1))
    plan = engine.plan(ConvForward(g))
    assert plan.route.startswith("MPE: ")
    assert "conv_forward_im2col: 3 spatial axes, 1 or 2 are scheduled" in plan.explain()
    assert "conv_forward_ldm: 3 spatial axes, 1 or 2 are scheduled" in plan.explain()


def test_plan_explains_configuration_price_and_program(engine):
    text = engine.plan(OPERATORS[0]).explain()
    assert "sw26010: gemm with tile_m=9 tile_n=17 tile_k=13" in text
    assert "on one core group" in text and "bound by" in text
    assert "mesh_gemm(trans_b)" in text


def test_describe_states_fidelity_arithmetic_and_threads():
    tile = create_engine("sw26010", threads=2).describe()
    assert tile == "sw26010 at tile fidelity: float32 tile by tile out of the LDM, 2 threads"
    mesh = create_engine("sw26010", fidelity="mesh", machine="toy").describe()
    assert mesh.startswith("toy at mesh fidelity: float32 in memory, float64 inside each kernel")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"fidelity": "exact"}, "unknown fidelity 'exact'"),
        ({"threads": -1}, "threads is -1"),
        ({"machine": "sw2601"}, "unknown machine 'sw2601' (did you mean 'sw26010'?)"),
    ],
)
def test_options_that_do_not_exist_are_named(options, text):
    with pytest.raises(EngineError) as caught:
        create_engine("sw26010", **options)
    assert text in str(caught.value)


def test_toy_machine_runs_what_it_can_and_leaves_the_rest_to_the_mpe():
    engine = create_engine("sw26010", machine="toy", threads=1)
    assert isinstance(engine.plan(OPERATORS[0]), ProgramPlan)
    wide = ConvForward(ConvGeometry(8, 1, 1, (1, 300), (1, 9), (1, 1), (0, 0), (1, 1)))
    assert "over 2048 B of LDM" in engine.plan(wide).explain()


def lenet_and_cifar():
    conv1 = ConvGeometry(16, 1, 20, (28, 28), (5, 5), (1, 1), (0, 0), (1, 1))
    conv2 = ConvGeometry(16, 20, 50, (12, 12), (5, 5), (1, 1), (0, 0), (1, 1))
    cifar2 = ConvGeometry(10, 32, 32, (16, 16), (5, 5), (1, 1), (2, 2), (1, 1))
    return [
        *(ConvForward(conv1), ConvBackwardWeights(conv1)),
        *(ConvForward(conv2), ConvBackwardData(conv2), ConvBackwardWeights(conv2)),
        *(ConvForward(cifar2), ConvBackwardData(cifar2), ConvBackwardWeights(cifar2)),
        Gemm(64, 500, 800, trans_b=True, has_bias=True),
        Gemm(64, 800, 500),
        Gemm(500, 800, 64, trans_a=True, accumulate=True),
        Gemm(64, 10, 500, trans_b=True, has_bias=True),
    ]


@pytest.mark.sw26010
@pytest.mark.parametrize("op", lenet_and_cifar(), ids=lambda op: type(op).__name__)
def test_layers_of_lenet_and_cifar_quick_on_the_whole_mesh(engine, op):
    arrays, wanted = arrays_of(op), arrays_of(op)
    plan = engine.plan(op)
    plan(*arrays)
    op.run_reference(*wanted)
    for found, reference in zip(arrays, wanted, strict=True):
        error = np.linalg.norm(found - reference) / np.linalg.norm(reference)
        assert error <= op.tolerance()
    if plan.counters is not None:
        assert count(plan.program, engine.machine).differences(plan.counters) == []
