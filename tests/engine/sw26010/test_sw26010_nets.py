"""Training steps of whole nets: which operators are the management core's, and in-place layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import swcaffe.layers  # noqa: F401  registers all layers
from swcaffe.engine.engine import create_engine
from swcaffe.engine.recording import RecordingEngine
from swcaffe.engine.sw26010.plan import ProgramPlan
from swcaffe.operators.activation import ActivationBackward, ActivationForward
from swcaffe.operators.affine import AffineForward
from swcaffe.operators.batch_norm import BatchNormBackward, BatchNormForward
from swcaffe.operators.eltwise import EltwiseSum
from swcaffe.operators.update import AdamUpdate, SgdUpdate
from swcaffe.proto import messages
from swcaffe.proto.prototxt import read_net
from swcaffe.solver.solver import Solver

MODELS = Path(__file__).parents[3] / "prototxt_models"
SHAPES = {
    "lenet": (8, 1, 28, 28),
    "cifar10_quick": (4, 3, 32, 32),
    "cifar10_full": (4, 3, 32, 32),
    "resnet_small": (4, 3, 32, 32),
}
MPE = {"SoftmaxLossForward", "SoftmaxLossBackward"}
"""Ten classes for each image: too little for a mesh."""


def solver_of(name, engine):
    """A net on blobs instead of data layers, with momentum."""
    net = read_net(MODELS / name / "train_val.prototxt").message
    kept = [layer for layer in net.layer if layer.type not in ("Data", "Accuracy")]
    del net.layer[:]
    data, shape = net.layer.add(name="in", type="Input", top=["data", "label"]), SHAPES[name]
    data.input_param.shape.add(dim=shape)
    data.input_param.shape.add(dim=shape[:1])
    net.layer.extend(kept)
    param = messages.SolverParameter(
        net_param=net, base_lr=0.01, momentum=0.9, lr_policy="fixed", random_seed=1
    )
    solver, rng = Solver(param, engine), np.random.default_rng(0)
    solver.net.blob("data").data[...] = rng.random(shape)
    solver.net.blob("label").data[...] = rng.integers(0, 10, shape[0])
    return solver


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_a_training_step_runs_by_programs_but_for_the_loss(name):
    engine = RecordingEngine(create_engine("sw26010"))
    solver = solver_of(name, engine)
    solver.step(1)
    plans = engine.take()
    others = {type(p.op).__name__ for p in plans if p.route.startswith("MPE")}
    assert others <= MPE
    seconds = [p.estimate().seconds for p in plans]
    on_mpe = [s for s, p in zip(seconds, plans, strict=True) if p.route.startswith("MPE")]
    assert sum(on_mpe) < 0.01 * sum(seconds)


IN_PLACE = [
    (ActivationForward("relu", 999), (0,)),
    (ActivationBackward("tanh", 999), (2,)),
    (EltwiseSum(999, (1.0, 2.0)), (0,)),
    (AffineForward(3, 5, 40, True, True), (0,)),
    (BatchNormForward(3, 5, 40, 1e-5), (0,)),
    (BatchNormBackward(3, 5, 40, 1e-5), (3,)),
    (SgdUpdate(999, "L2", 0.9), (1, 3)),
    (AdamUpdate(999), (1, 3, 4)),
]


@pytest.mark.parametrize("fidelity", ["tile", "mesh"])
@pytest.mark.parametrize(("op", "shared"), IN_PLACE, ids=lambda value: str(value)[:30])
def test_results_may_overwrite_the_operands_that_the_operator_names(op, shared, fidelity):
    rng = np.random.default_rng(1)
    inputs = [np.abs(rng.standard_normal(o.shape)).astype(np.float32) for o in op.inputs]
    plan = create_engine("sw26010", fidelity=fidelity, machine="toy").plan(op)
    assert isinstance(plan, ProgramPlan)
    apart = [np.zeros(o.shape, np.float32) for o in op.outputs]
    plan(*inputs, *apart)
    merged = [inputs[i] for i in shared]
    rest = [np.zeros(o.shape, np.float32) for o in op.outputs[len(shared) :]]
    plan(*inputs, *merged, *rest)
    for found, wanted in zip([*merged, *rest], apart, strict=True):
        assert (found == wanted).all()


@pytest.mark.parametrize("op", [op for op, _ in IN_PLACE], ids=lambda op: str(op)[:30])
def test_bits_do_not_depend_on_the_number_of_threads(op):
    rng = np.random.default_rng(2)
    inputs = [np.abs(rng.standard_normal(o.shape)).astype(np.float32) for o in op.inputs]
    results = []
    for threads in (1, 2, 3):
        plan = create_engine("sw26010", threads=threads, machine="toy").plan(op)
        results.append([np.zeros(o.shape, np.float32) for o in op.outputs])
        plan(*inputs, *results[-1])
    for found in results[1:]:
        for a, b in zip(results[0], found, strict=True):
            assert (a == b).all()
