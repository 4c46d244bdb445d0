"""`swcaffe codegen`: the programs of a net as C for the SW26010, and what gcc needs to run them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from swcaffe.arrays import Array
from swcaffe.cli.engines import add_net_flags, stages
from swcaffe.cli.flags import Flags
from swcaffe.codegen.files import write_sources
from swcaffe.engine.engine import Engine, Plan
from swcaffe.engine.sw26010.engine import SunwayEngine, create
from swcaffe.engine.sw26010.plan import ProgramPlan
from swcaffe.errors import NetError, UsageError, unknown_name
from swcaffe.ir.stmt import Program
from swcaffe.machine.spec import MACHINES
from swcaffe.net.layer import Phase
from swcaffe.net.net import BuildOptions, Net
from swcaffe.operators.base import Operator

__all__ = ["run"]


class _Noted(Plan):
    """A plan that is written down where it would run."""

    def __init__(self, plan: Plan, notes: list[Plan]) -> None:
        super().__init__(plan.op, plan.route)
        self._plan, self._notes = plan, notes

    def __call__(self, *arrays: Array) -> None:
        self._notes.append(self._plan)


class _Planner(Engine):
    """Plans as the SW26010 does, and computes nothing."""

    def __init__(self, engine: SunwayEngine) -> None:
        super().__init__()
        self.name, self._engine = engine.name, engine
        self.notes: list[Plan] = []

    def make_plan(self, op: Operator) -> Plan:
        return _Noted(self._engine.plan(op), self.notes)

    def describe(self) -> str:
        return self._engine.describe()

    def take(self) -> list[Plan]:
        notes, self.notes[:] = list(self.notes), []
        return notes


def _flags() -> Flags:
    flags = Flags(
        "codegen",
        "Write the SW26010 programs of a net, or of some of its layers, as C for athread, with a\n"
        "Makefile for the machine's compiler and, with a runtime that stands for it, for gcc.",
    )
    flags.add_argument("model", metavar="NET", help="net prototxt")
    flags.add_argument("--output", "-o", metavar="DIR", help="folder to write to (required)")
    flags.add_argument(
        "--layer", default="", metavar="A,B", help="comma-separated names of layers (all)"
    )
    flags.add_argument(
        "--phase", choices=["TRAIN", "TEST"], default="TRAIN", help="of the net (TRAIN)"
    )
    flags.add_argument(
        "--machine", choices=list(MACHINES), default="sw26010", help="which machine (sw26010)"
    )
    add_net_flags(flags)
    return flags


def run(argv: Sequence[str]) -> int:
    """Write the files and list the programs; 0."""
    args = _flags().parse(argv)
    if not args.output:
        raise UsageError("swcaffe codegen needs -o DIR", fix="swcaffe codegen --help")
    machine = create(machine=args.machine, threads=1)
    engine = _Planner(machine)
    net = Net.from_file(
        args.model,
        Phase[args.phase],
        BuildOptions(engine),
        level=args.level,
        stages=stages(args),
        lenient=args.lenient,
    )
    try:
        chosen = [name for name in args.layer.split(",") if name]
        programs, lines = _collect(list(_runs(net, engine, chosen)))
    finally:
        net.close()
    if not programs:
        raise NetError(
            f"no operator of {args.model} has an SW26010 program",
            fix="choose other layers; `swcaffe time` names who computes each",
        )
    write_sources(Path(args.output), programs, machine.machine)
    for line in lines:
        print(line)
    return 0


def _runs(net: Net, engine: _Planner, chosen: list[str]) -> Iterator[tuple[str, Plan]]:
    """(layer and direction, plan) of all that would run, in order."""
    names = [node.layer.name for node in net.nodes]
    for name in chosen:
        if name not in names:
            raise UsageError(unknown_name("layer", name, names), fix="give names of the net")
    passes = {"forward": net.forward_node, "backward": net.backward_node}
    for direction, one in passes.items():
        for i, name in enumerate(names):
            if direction == "backward" and net.phase is not Phase.TRAIN:
                continue
            one(i)
            for plan in engine.take():
                if not chosen or name in chosen:
                    yield f"{name} {direction}", plan


def _collect(runs: list[tuple[str, Plan]]) -> tuple[dict[str, Program], list[str]]:
    """Programs by name, equal ones once; and a line for each run."""
    programs: dict[str, Program] = {}
    names: dict[int, str] = {}
    lines = []
    for what, plan in runs:
        if not isinstance(plan, ProgramPlan):
            lines.append(f"{what:<32} {plan.route}")
            continue
        if id(plan) not in names:
            names[id(plan)] = _name(what, programs)
            programs[names[id(plan)]] = plan.program
        lines.append(f"{what:<32} {names[id(plan)]}: {plan.program.name}")
    return programs, lines


def _name(what: str, taken: dict[str, Program]) -> str:
    """A name in C, with a number behind it from the second time on."""
    base = re.sub(r"\W", "_", what, flags=re.ASCII)
    base = f"_{base}" if base[0].isdigit() else base
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name
