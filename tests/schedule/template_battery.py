"""What every template must pass: reference = tile = mesh, counts exact, verified, LDM poisoned."""

from __future__ import annotations

import numpy as np

from swcaffe.cost.count import count
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.execute.tile import CoreGroups, TileExecutor
from swcaffe.ir.verify import verify
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.schedule.space import Config
from swcaffe.schedule.template import TEMPLATES, Template


def template(op: Operator, name: str) -> Template:
    """The template of an operator by name."""
    return next(t for t in TEMPLATES[type(op)] if t.name == name)


SQUARES = {"history", "gradients", "steps", "v", "variance"}
"""Operands that are sums of squares."""


def random_arrays(op: Operator, seed: int = 7) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Normal inputs, squares where they must be, and outputs that hold something already."""
    rng = np.random.default_rng(seed)

    def draw(operands):
        values = [(o, rng.standard_normal(o.shape).astype(o.dtype)) for o in operands]
        return [value * value if o.name in SQUARES else value for o, value in values]

    return draw(op.inputs), draw(op.outputs)


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """2-norm of the difference over that of the wanted values."""
    return float(np.linalg.norm(found - wanted) / max(np.linalg.norm(wanted), 1e-30))


def some_configs(t: Template, op: Operator, machine: Machine, limit: int) -> list[Config]:
    """Configurations spread over the whole space."""
    configs = list(t.space(op, machine))
    assert configs, f"{t.name} has no configuration for {op}"
    return configs[:: max(1, len(configs) // limit)]


def check_template(
    t: Template,
    op: Operator,
    machine: Machine,
    limit: int = 3,
    inputs: list[np.ndarray] | None = None,
) -> None:
    """Run some programs of a template at both fidelities against the operator's definition."""
    drawn, outputs = random_arrays(op)
    inputs = drawn if inputs is None else inputs
    wanted = [out.copy() for out in outputs]
    op.run_reference(*inputs, *wanted)
    for config in some_configs(t, op, machine, limit):
        program = t.build(op, config, machine)
        verify(program, machine)
        for fidelity in ("tile", "mesh"):
            results = [out.copy() for out in outputs]
            if fidelity == "tile":
                groups = CoreGroups(machine, threads=2)
                executor = TileExecutor(program, groups)
                for array in (*groups.ldm, *groups.private, groups.shared):
                    array[:] = np.nan
                executor.run([*inputs, *results])
            else:
                events = MeshExecutor(program, machine).run([*inputs, *results])
                assert count(program, machine).differences(events) == []
            for found, reference in zip(results, wanted, strict=True):
                error = relative_error(found, reference)
                assert error <= op.tolerance(), f"{t.name} {config} at {fidelity}: {error:g}"
