"""The engine flags, shared by every command that runs a net."""

from __future__ import annotations

import argparse
import logging

import swcaffe.layers  # noqa: F401  registers the layer types
from swcaffe.cli.flags import Flags, boolean, not_negative
from swcaffe.engine.engine import Engine, create_engine

__all__ = ["add_engine_flags", "add_net_flags", "make_engine", "stages"]

log = logging.getLogger(__name__)


def add_engine_flags(flags: Flags) -> None:
    """--engine, --fidelity, --threads and Caffe's --gpu."""
    flags.add_argument(
        "--engine",
        choices=["host", "sw26010"],
        help="who computes (sw26010, unless the solver says solver_mode: CPU)",
    )
    flags.add_argument(
        "--fidelity",
        choices=["tile", "mesh"],
        default="tile",
        help="sw26010: tile by tile in float32, or CPE by CPE with the machine's arithmetic (tile)",
    )
    flags.add_argument(
        "--threads",
        type=not_negative,
        default=0,
        metavar="N",
        help="host threads; 0 is all cores (0)",
    )
    flags.add_argument(
        "--gpu", default="", metavar="IDS", help="Caffe's flag; any value chooses sw26010"
    )


def add_net_flags(flags: Flags) -> None:
    """--level, --stage and --lenient."""
    flags.add_argument("--level", type=int, default=0, metavar="N", help="net level (0)")
    flags.add_argument(
        "--stage", default="", metavar="A,B", help="comma-separated net stages (none)"
    )
    flags.add_argument(
        "--lenient",
        type=boolean,
        default=False,
        metavar="BOOL",
        help="warn about unknown prototxt fields instead of refusing them (false)",
    )


def stages(args: argparse.Namespace) -> list[str]:
    """The stages of --stage."""
    return [stage for stage in args.stage.split(",") if stage]


def make_engine(args: argparse.Namespace, default: str = "sw26010") -> Engine:
    """The engine asked for; `default` is what the solver file asks for."""
    name = args.engine or ("sw26010" if args.gpu else default)
    options: dict[str, object] = {"threads": args.threads}
    if name == "sw26010":
        options["fidelity"] = args.fidelity
    engine = create_engine(name, **options)
    log.info("Use %s", engine.describe(), extra={"origin": "caffe.cpp:198"})
    return engine
