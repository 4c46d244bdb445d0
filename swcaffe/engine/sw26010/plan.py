"""Plans that are programs: the cost model chooses one, `verify` accepts it, an executor runs it."""

from __future__ import annotations

from dataclasses import dataclass

from swcaffe.arrays import Array
from swcaffe.cost.model import CostModel, Price
from swcaffe.engine.engine import Estimate, Plan, Refusal
from swcaffe.execute.mesh import MeshExecutor
from swcaffe.execute.tile import CoreGroups, TileExecutor
from swcaffe.ir.printer import text
from swcaffe.ir.stmt import Program
from swcaffe.ir.verify import verify
from swcaffe.machine.events import Counters
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.schedule.space import Config
from swcaffe.schedule.template import Template

__all__ = ["Choice", "ProgramPlan", "Scheduled"]

PRICED = 2
"""Configurations of the best template that are built and priced, best of the sketch first."""

SHARED_FLOPS, SHARED_BYTES = 2_000_000, 1_000_000
"""Operators below both run on one host thread: waking another takes as long as they do."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One program for an operator, and its price."""

    template: str
    config: Config
    program: Program
    price: Price


class ProgramPlan(Plan):
    """One program, run at the engine's fidelity.

    `counters` holds the events of the last run at mesh fidelity, and None at tile fidelity.
    """

    def __init__(self, op: Operator, scheduled: Scheduled, choice: Choice) -> None:
        """Prepare the executor of a verified program."""
        super().__init__(op, f"{scheduled.machine.name}: {choice.template}")
        program = choice.program
        self._scheduled = scheduled
        self.config, self.program, self.price = choice.config, program, choice.price
        self.counters: Counters | None = None
        self._tile: TileExecutor | None = None
        self._mesh: MeshExecutor | None = None
        if scheduled.groups is not None:
            nbytes = sum(operand.nbytes for operand in (*op.inputs, *op.outputs))
            shared = op.flops >= SHARED_FLOPS or nbytes >= SHARED_BYTES
            self._tile = TileExecutor(program, scheduled.groups, shared=shared)
        else:
            self._mesh = MeshExecutor(program, scheduled.machine)

    def __call__(self, *arrays: Array) -> None:
        """Run the program."""
        if self._tile is not None:
            self._tile.run(arrays)
        elif self._mesh is not None:
            self.counters = self._mesh.run(arrays)

    def estimate(self) -> Estimate:
        """Predicted time on one core group of the machine: what `swcaffe time` prints."""
        return self._estimate(self.price)

    def chip_estimate(self) -> Estimate:
        """Predicted time on all core groups, which share parallel loops and the memory."""
        return self._estimate(self._scheduled.chip_price(self.program))

    def _estimate(self, price: Price) -> Estimate:
        return Estimate(
            price.seconds, self.op.flops, price.dma_bytes, price.bound, dict(price.resources)
        )

    def explain(self) -> str:
        """Route, configuration, predicted time by resource, and the program."""
        parts = ", ".join(f"{k} {v * 1e6:.1f} us" for k, v in self.price.resources.items())
        groups = self._scheduled.machine.core_groups
        return (
            f"{self.op}: {self.route} with {self.config}; on one core group "
            f"{self.price.seconds * 1e6:.1f} us, bound by {self.price.bound} ({parts}); "
            f"on {groups} core groups {self.chip_estimate().seconds * 1e6:.1f} us\n"
            f"{text(self.program)}"
        )


class Scheduled:
    """A candidate: the templates of an operator class; tile fidelity with `groups`, else mesh."""

    name = "schedules"

    def __init__(
        self, templates: list[Template], machine: Machine, groups: CoreGroups | None
    ) -> None:
        """`groups` are shared by all plans of the engine."""
        self.machine, self.groups = machine, groups
        self._templates, self._model = templates, CostModel(machine)

    def supports(self, op: Operator) -> Refusal | None:
        """Refused if every template refuses."""
        reasons = {template.name: template.refuse(op, self.machine) for template in self._templates}
        if None in reasons.values():
            return None
        return Refusal("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))

    def plan(self, op: Operator) -> ProgramPlan:
        """The cheapest program: more configurations are tried of the template that starts best."""
        able = [t for t in self._templates if t.refuse(op, self.machine) is None]
        lists = [(t, t.shortlist(op, self.machine, PRICED)) for t in able]
        firsts = [self._price(op, template, configs[0]) for template, configs in lists]
        best = min(range(len(able)), key=lambda i: firsts[i].price.seconds)
        template, configs = lists[best]
        choices = [firsts[best], *(self._price(op, template, config) for config in configs[1:])]
        choice = min(choices, key=lambda choice: choice.price.seconds)
        verify(choice.program, self.machine)
        return ProgramPlan(op, self, choice)

    def chip_price(self, program: Program) -> Price:
        """A program's price on all core groups."""
        return self._model.price(program, self.machine.core_groups)

    def _price(self, op: Operator, template: Template, config: Config) -> Choice:
        program = template.build(op, config, self.machine)
        return Choice(template.name, config, program, self._model.price(program))
