"""Learning-rate policies at iterations where the value is known."""

from __future__ import annotations

import math

import pytest

from swcaffe.errors import ParameterError
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse
from swcaffe.solver.lr_policy import LearningRate


def rate(text: str) -> LearningRate:
    return LearningRate(parse(text, messages.SolverParameter).message)


@pytest.mark.parametrize(
    ("text", "iteration", "expected"),
    [
        ('base_lr: 0.5 lr_policy: "fixed"', 10**6, 0.5),
        ('base_lr: 0.01 lr_policy: "step" gamma: 0.1 stepsize: 500', 499, 0.01),
        ('base_lr: 0.01 lr_policy: "step" gamma: 0.1 stepsize: 500', 500, 0.001),
        ('base_lr: 2 lr_policy: "exp" gamma: 0.5', 3, 0.25),
        ('base_lr: 0.01 lr_policy: "inv" gamma: 1e-4 power: 0.75', 10000, 0.00594604),
        ('base_lr: 3 lr_policy: "poly" power: 1 max_iter: 100', 50, 1.5),
        ('base_lr: 3 lr_policy: "poly" power: 2 max_iter: 100', 90, 0.03),
        ('base_lr: 4 lr_policy: "sigmoid" gamma: 0.5 stepsize: 10', 10, 2.0),
        ('base_lr: 4 lr_policy: "sigmoid" gamma: 0.5 stepsize: 10', 14, 4 / (1 + math.exp(-2))),
    ],
)
def test_values(text: str, iteration: int, expected: float) -> None:
    assert rate(text).at(iteration) == pytest.approx(expected, rel=1e-6)
    assert rate(text).peek(iteration) == pytest.approx(expected, rel=1e-6)


def test_multistep_drops_at_its_step_values_and_one_a_call() -> None:
    lr = rate('base_lr: 1 lr_policy: "multistep" gamma: 0.1 stepvalue: 5 stepvalue: 8')
    rates = [lr.at(i) for i in range(10)]
    assert rates == pytest.approx([1] * 5 + [0.1] * 3 + [0.01] * 2)
    late = rate('base_lr: 1 lr_policy: "multistep" gamma: 0.1 stepvalue: 5 stepvalue: 8')
    assert [late.at(20), late.at(20), late.at(20)] == pytest.approx([0.1, 0.01, 0.01])


def test_peek_leaves_the_step_alone() -> None:
    lr = rate('base_lr: 1 lr_policy: "multistep" gamma: 0.1 stepvalue: 5')
    assert lr.peek(7) == pytest.approx(0.1)
    assert lr.current_step == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base_lr: 1", "lr_policy is missing"),
        ('lr_policy: "stepdecr"', "unknown lr_policy 'stepdecr'.*step.*known: exp, fixed, inv"),
        ('lr_policy: "step" gamma: 0.1', "needs stepsize"),
        ('lr_policy: "step" gamma: 0.1 stepsize: 0', "stepsize must be positive"),
        ('lr_policy: "exp" gamma: -1', "gamma must be 0 or more, got -1"),
        ('lr_policy: "poly" power: 1', "needs max_iter"),
        ('lr_policy: "multistep" gamma: 1 stepvalue: 8 stepvalue: 5', "stepvalue must increase"),
    ],
)
def test_policies_that_mean_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        rate(text)
