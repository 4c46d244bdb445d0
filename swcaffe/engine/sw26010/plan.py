"""Plans that are programs: the cost model chooses one, `verify` accepts it, an executor runs it."""

from __future__ import annotations

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

__all__ = ["ProgramPlan", "Scheduled"]

PRICED = 2
"""Configurations that are built and priced for each operator, best of the sketch first."""


class ProgramPlan(Plan):
    """One program, run at the engine's fidelity.

    `counters` holds the events of the last run at mesh fidelity, and None at tile fidelity.
    """

    def __init__(
        self,
        op: Operator,
        scheduled: Scheduled,
        template: str,
        config: Config,
        program: Program,
        price: Price,
    ) -> None:
        """Prepare the executor of a verified program."""
        super().__init__(op, f"{scheduled.machine.name}: {template}")
        self.config, self.program, self.price = config, program, price
        self.counters: Counters | None = None
        self._tile: TileExecutor | None = None
        self._mesh: MeshExecutor | None = None
        if scheduled.groups is not None:
            self._tile = TileExecutor(program, scheduled.groups)
        else:
            self._mesh = MeshExecutor(program, scheduled.machine)

    def __call__(self, *arrays: Array) -> None:
        """Run the program."""
        if self._tile is not None:
            self._tile.run(arrays)
        elif self._mesh is not None:
            self.counters = self._mesh.run(arrays)

    def estimate(self) -> Estimate:
        """Predicted time on one core group of the machine."""
        price = self.price
        return Estimate(
            price.seconds, self.op.flops, price.dma_bytes, price.bound, dict(price.resources)
        )

    def explain(self) -> str:
        """Route, configuration, predicted time by resource, and the program."""
        parts = ", ".join(f"{k} {v * 1e6:.1f} us" for k, v in self.price.resources.items())
        return (
            f"{self.op}: {self.route} with {self.config}; on one core group "
            f"{self.price.seconds * 1e6:.1f} us, bound by {self.price.bound} ({parts})\n"
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
        """The cheapest of the configurations that each template's sketch likes best."""
        priced = [
            (self._model.price(program), template, config, program)
            for template in self._templates
            if template.refuse(op, self.machine) is None
            for config in template.shortlist(op, self.machine, PRICED)
            for program in [template.build(op, config, self.machine)]
        ]
        price, template, config, program = min(priced, key=lambda entry: entry[0].seconds)
        verify(program, self.machine)
        return ProgramPlan(op, self, template.name, config, program, price)
