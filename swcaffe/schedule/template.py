"""Template: an operator and a configuration give a program; which templates there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from swcaffe.ir.stmt import Program
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.schedule.space import Config, ConfigSpace

__all__ = ["TEMPLATES", "Template", "template_for"]


class Template(ABC):
    """One family of schedules, for one operator class unless it files itself under several."""

    name: ClassVar[str]
    op_class: ClassVar[type[Operator]]

    @abstractmethod
    def refuse(self, op: Operator, machine: Machine) -> str | None:
        """Why this operator cannot be scheduled on this machine, or None."""

    @abstractmethod
    def space(self, op: Operator, machine: Machine) -> ConfigSpace:
        """Configurations whose programs fit the machine; not empty unless `refuse` says so."""

    @abstractmethod
    def sketch(self, op: Operator, config: Config, machine: Machine) -> float:
        """Rough cycles, cheap to compute: orders configurations before some are priced."""

    def shortlist(self, op: Operator, machine: Machine, limit: int) -> list[Config]:
        """The `limit` configurations that the sketch likes best."""
        configs = list(self.space(op, machine))
        return sorted(configs, key=lambda config: self.sketch(op, config, machine))[:limit]

    @abstractmethod
    def build(self, op: Operator, config: Config, machine: Machine) -> Program:
        """The program; its parameters are the operator's inputs, then its outputs."""


TEMPLATES: dict[type[Operator], list[Template]] = {}
"""Operator class -> templates, best first."""


def template_for(template: type[Template]) -> type[Template]:
    """Decorator that files a template under its operator class."""
    TEMPLATES.setdefault(template.op_class, []).append(template())
    return template
