"""What a SolverParameter asks for: settings and nets, checked before anything is built."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from pathlib import Path

from swcaffe.errors import ParameterError, locate
from swcaffe.net.definition import Definition, definition_of, merged_state
from swcaffe.net.layer import Phase
from swcaffe.proto import messages
from swcaffe.proto.messages import Message
from swcaffe.proto.prototxt import Parsed, read_net
from swcaffe.proto.source_map import SourceMap
from swcaffe.proto.upgrade import upgrade_net
from swcaffe.solver.update import REGULARIZATIONS

__all__ = ["SolverNets", "check_settings", "solver_nets", "weight_files"]

log = logging.getLogger(__name__)

TRAIN_FIELDS = ("train_net_param", "train_net", "net_param", "net")

RANGES = {
    "base_lr": (0, math.inf),
    "momentum": (0, 1),
    "momentum2": (0, 1),
    "weight_decay": (0, math.inf),
    "max_iter": (0, math.inf),
    "iter_size": (1, math.inf),
    "average_loss": (1, math.inf),
    "display": (0, math.inf),
    "snapshot": (0, math.inf),
    "test_interval": (0, math.inf),
}
"""Field -> least value, and the bound that it must stay below: no NaN, no infinity."""


@dataclass(frozen=True, slots=True)
class SolverNets:
    """Definitions of the training net and of the test nets, in order.

    test_origins  where each test net comes from, as Caffe logs it: "net file: NAME"
    """

    train: Definition
    tests: tuple[Definition, ...]
    test_origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """A net by file or inline, as text for the log and ready to be given a state."""

    text: str
    net: Message
    parsed: Parsed | None

    def definition(self, *states: Message) -> Definition:
        return definition_of(self.net, merged_state(*states), self.parsed)


def check_settings(param: Message, places: SourceMap) -> None:
    """Refuse settings with which training means nothing. Raises ParameterError with the line."""
    with locate(places.where(("base_lr",))):
        if not param.HasField("base_lr"):
            raise ParameterError("base_lr is missing", fix="set the learning rate to begin with")
    with locate(places.where(("regularization_type",))):
        REGULARIZATIONS.get(param.regularization_type)
    for name, (least, bound) in RANGES.items():
        value = getattr(param, name)
        if not least <= value < bound:
            below = f" and below {bound}" if math.isfinite(bound) else ""
            raise ParameterError(
                f"{name} is {value:g}",
                where=places.where((name,)),
                fix=f"give {least} or more{below}",
            )


def _from_file(path: str, base: Path, lenient: bool) -> _Source:
    """A net file, relative to the working directory or else to the solver's own folder."""
    found = Path(path)
    if not found.is_file() and (base / path).is_file():
        found = base / path
    parsed = read_net(found, lenient=lenient)
    return _Source(f"net file: {path}", parsed.message, parsed)


def _inline(net: Message, name: str) -> _Source:
    return _Source(name, upgrade_net(net), None)


def _train_source(p: Message, base: Path, lenient: bool) -> _Source:
    given = [name for name in TRAIN_FIELDS if p.HasField(name)]
    if len(given) != 1:
        got = "none of them" if not given else " and ".join(given)
        raise ParameterError(
            f"a solver needs exactly one of {', '.join(TRAIN_FIELDS)}; got {got}",
            fix='set net: "FILE"' if not given else "keep one",
        )
    value = getattr(p, given[0])
    return (
        _inline(value, given[0]) if given[0].endswith("param") else _from_file(value, base, lenient)
    )


def _test_sources(p: Message, base: Path, generic: _Source | None, lenient: bool) -> list[_Source]:
    sources = [_inline(net, "test_net_param") for net in p.test_net_param]
    sources += [_from_file(path, base, lenient) for path in p.test_net]
    rest = len(p.test_iter) - len(sources)
    if rest < 0 or (rest and generic is None):
        raise ParameterError(
            f"{len(p.test_iter)} test_iter for {len(sources)} test nets",
            fix="give one test_iter for each test net",
        )
    return sources + [generic] * rest if generic else sources


def _check_tests(p: Message, tests: int) -> None:
    if len(p.test_state) not in (0, tests):
        raise ParameterError(
            f"{len(p.test_state)} test_state for {tests} test nets",
            fix="give none, or one for each test net (one test_iter each)",
        )
    if tests and p.test_interval <= 0:
        raise ParameterError(
            f"test_interval is {p.test_interval} but there are test nets", fix="set it above 0"
        )
    if not tests and p.test_interval > 0:
        raise ParameterError(
            f"test_interval is {p.test_interval} but there is no test_iter",
            fix="set test_iter (batches per test), or remove test_interval",
        )
    for value in p.test_iter:
        if value <= 0:
            raise ParameterError(f"test_iter must be positive, got {value}", fix="give 1 or more")


def solver_nets(
    param: Message, base: Path, places: SourceMap, *, lenient: bool = False
) -> SolverNets:
    """The nets of an upgraded SolverParameter; `base` is the solver file's folder.

    Raises ParameterError when nets, test_iter, test_interval and test_state do not agree.
    """
    given = next((name for name in TRAIN_FIELDS if param.HasField(name)), "net")
    with locate(places.where((given,))):
        source = _train_source(param, base, lenient)
    generic = source if param.HasField("net") or param.HasField("net_param") else None
    asked = ("test_iter", 0) if param.test_iter else ("test_interval",)
    with locate(places.where(asked)):
        tests = _test_sources(param, base, generic, lenient)
        _check_tests(param, len(tests))
    train_state = messages.NetState(phase=int(Phase.TRAIN))
    test_state = messages.NetState(phase=int(Phase.TEST))
    extra = list(param.test_state) or [messages.NetState()] * len(tests)
    log.info("Creating training net from %s", source.text, extra={"origin": "solver.cpp:81"})
    return SolverNets(
        source.definition(train_state, source.net.state, param.train_state),
        tuple(
            test.definition(test_state, test.net.state, own)
            for test, own in zip(tests, extra, strict=True)
        ),
        tuple(test.text for test in tests),
    )


def weight_files(param: Message) -> list[str]:
    """The caffemodels that the field `weights` names; each entry may be a comma list."""
    parts = (part.strip() for entry in param.weights for part in entry.split(","))
    return [part for part in parts if part]
