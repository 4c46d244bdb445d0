"""Update rules against the same rules in plain double-precision loops, over several steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from swcaffe.engine.engine import Engine
from swcaffe.operators.update import (
    HYPER,
    AdaDeltaUpdate,
    AdaGradUpdate,
    AdamUpdate,
    NesterovUpdate,
    Regularization,
    RmsPropUpdate,
    SgdUpdate,
    Update,
)

N = 37


def sgd(g, rate, h):
    h[0] = 0.9 * h[0] + rate * g
    return h[0]


def nesterov(g, rate, h):
    before, h[0] = h[0], 0.9 * h[0] + rate * g
    return 1.9 * h[0] - 0.9 * before


def adagrad(g, rate, h):
    h[0] += g * g
    return rate * g / (math.sqrt(h[0]) + 1e-3)


def rmsprop(g, rate, h):
    h[0] = 0.95 * h[0] + 0.05 * g * g
    return rate * g / (math.sqrt(h[0]) + 1e-3)


def adadelta(g, rate, h):
    h[0] = 0.95 * h[0] + 0.05 * g * g
    u = g * math.sqrt((h[1] + 1e-3) / (h[0] + 1e-3))
    h[1] = 0.95 * h[1] + 0.05 * u * u
    return rate * u


def adam(g, rate, h):
    h[0] = 0.9 * h[0] + 0.1 * g
    h[1] = 0.99 * h[1] + 0.01 * g * g
    return rate * h[0] / (math.sqrt(h[1]) + 1e-3)


def rules(kind: Regularization) -> list[tuple[Update, object]]:
    return [
        (SgdUpdate(N, kind, momentum=0.9), sgd),
        (NesterovUpdate(N, kind, momentum=0.9), nesterov),
        (AdaGradUpdate(N, kind, delta=1e-3), adagrad),
        (RmsPropUpdate(N, kind, rms_decay=0.95, delta=1e-3), rmsprop),
        (AdaDeltaUpdate(N, kind, momentum=0.95, delta=1e-3), adadelta),
        (AdamUpdate(N, kind, beta1=0.9, beta2=0.99, delta=1e-3), adam),
    ]


CASES = [*rules("L1"), *rules("L2")]


@pytest.mark.parametrize(
    ("op", "rule"), CASES, ids=[f"{type(op).__name__}-{op.regularization}" for op, _ in CASES]
)
def test_five_steps_equal_the_rule_written_out(op: Update, rule, engine: Engine, rng) -> None:
    weights = rng.normal(size=N).astype(np.float32)
    weights[0] = 0  # L1 has no pull at 0
    histories = [np.zeros(N, np.float32) for _ in op.histories]
    plan = engine.plan(op)
    wanted, past = weights.astype(np.float64), [[0.0] * len(histories) for _ in range(N)]
    for step in range(5):
        diff = rng.normal(size=N).astype(np.float32)
        hyper = np.array([0.1 / (step + 1), 0.02, 0.25], np.float32)
        plan(hyper, weights, diff, *histories, weights, *histories)
        rate, decay, scale = (float(v) for v in hyper)
        for i in range(N):
            pull = wanted[i] if op.regularization == "L2" else np.sign(wanted[i])
            wanted[i] -= rule(scale * float(diff[i]) + decay * pull, rate, past[i])
    error = np.linalg.norm(weights - wanted) / np.linalg.norm(wanted)
    assert error <= 5 * 8 * np.finfo(np.float32).eps
    for k, history in enumerate(histories):
        expected = np.array([row[k] for row in past])
        assert np.linalg.norm(history - expected) <= 1e-5 * np.linalg.norm(expected)


def test_a_zero_rate_changes_nothing() -> None:
    for op, _ in CASES:
        arrays = [np.ones(o.shape, np.float32) for o in op.inputs]
        arrays[0][...] = (0, 0.1, 1)
        for history in arrays[3:]:
            history.fill(0)
        op.run_reference(*arrays, arrays[1], *arrays[3:])
        assert np.array_equal(arrays[1], np.ones(N)), op


def test_descriptions_are_keys_with_operands_in_one_order() -> None:
    assert HYPER == ("rate", "decay", "scale")
    assert len({op for op, _ in CASES}) == len(CASES)
    for op, _ in CASES:
        names = [o.name for o in op.inputs]
        assert names[:3] == ["hyper", "weights", "diff"]
        assert [o.name for o in op.outputs] == ["weights", *names[3:]]
        assert op.aliases == tuple((o.name, o.name) for o in op.outputs)
        assert op.flops > 5 * N
