"""Fixtures for all tests: engines and seeded random numbers."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from swcaffe.engine.engine import Engine, Plan, ReferencePlan, create_engine
from swcaffe.operators.base import Operator


class ReferenceEngine(Engine):
    """Every operator by its numpy definition, with all operands checked at every call."""

    name = "reference"

    def make_plan(self, op: Operator) -> Plan:
        return CheckedPlan(op, self.name)

    def describe(self) -> str:
        return "numpy definitions"


class CheckedPlan(ReferencePlan):
    """The definition, refusing arrays that do not fit the operands."""

    def __call__(self, *arrays: np.ndarray) -> None:
        self.op.check(*arrays)
        super().__call__(*arrays)


def engine_names() -> list[str]:
    """The reference, and the host engine when it is there."""
    host = importlib.util.find_spec("swcaffe.engine.host")
    return ["reference", "host"] if host else ["reference"]


def make_engine(name: str) -> Engine:
    """An engine by name."""
    return ReferenceEngine() if name == "reference" else create_engine(name)


@pytest.fixture(scope="session", params=engine_names())
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine that layers must agree on."""
    return make_engine(request.param)


@pytest.fixture
def reference_engine() -> Engine:
    """The numpy definitions alone."""
    return ReferenceEngine()


@pytest.fixture
def rng() -> np.random.Generator:
    """Seeded random numbers."""
    return np.random.default_rng(20170605)
