"""pycaffe's global settings: which engine new nets get, the random seed, the log.

Only this package has such state, because pycaffe's interface is global; everything below is handed
its engine and seed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from swcaffe.engine.engine import Engine, create_engine
from swcaffe.errors import ParameterError
from swcaffe.log import configure
from swcaffe.streams import fresh_seed

__all__ = [
    "current_engine",
    "current_seed",
    "init_log",
    "set_device",
    "set_engine",
    "set_mode_cpu",
    "set_mode_gpu",
    "set_random_seed",
]


@dataclass
class _Settings:
    engine: str = ""
    options: dict[str, object] = field(default_factory=dict)
    made: dict[str, Engine] = field(default_factory=dict)
    seed: int = -1
    drawn: int = 0


_SETTINGS = _Settings()


def set_engine(name: str, **options: object) -> None:
    """Give nets and solvers made from now on this engine: "host", or "sw26010" with a fidelity.

    Raises EngineError for an engine, an option or a value that does not exist; the old one stays.
    """
    _engine_of(name, options)
    _SETTINGS.engine, _SETTINGS.options = name, options


def set_mode_cpu() -> None:
    """The host engine from now on."""
    set_engine("host")


def set_mode_gpu() -> None:
    """The sw26010 engine (tile fidelity) from now on."""
    set_engine("sw26010")


def set_device(device: int) -> None:
    """Accepted for old scripts; there is one device, number 0. Raises ParameterError for others."""
    if device != 0:
        raise ParameterError(f"there is no device {device}", fix="use device 0")


def current_engine(default: str = "sw26010") -> Engine:
    """The engine that was set, or `default` if none was; one object a setting."""
    return _engine_of(_SETTINGS.engine or default, _SETTINGS.options)


def _engine_of(name: str, options: dict[str, object]) -> Engine:
    key = f"{name} {sorted(options.items())}"
    if key not in _SETTINGS.made:
        _SETTINGS.made[key] = create_engine(name, **options)
    return _SETTINGS.made[key]


def set_random_seed(seed: int) -> None:
    """Make the nets built from now on repeatable; each gets a number of its own from this seed."""
    _SETTINGS.seed, _SETTINGS.drawn = seed, 0


def current_seed() -> int:
    """Seed for the next net: counted on from the one that was set, or fresh."""
    if _SETTINGS.seed < 0:
        return fresh_seed()
    _SETTINGS.drawn += 1
    return _SETTINGS.seed + _SETTINGS.drawn - 1


def init_log(level: int = 0, to_stderr: bool = True) -> None:
    """Show the log from a glog severity on: 0 info, 1 warning, 2 error."""
    configure((logging.INFO, logging.WARNING, logging.ERROR)[min(level, 2)] if to_stderr else 100)
