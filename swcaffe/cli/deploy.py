"""`swcaffe deploy`: a deploy prototxt from a training one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from swcaffe.arrays import Shape
from swcaffe.cli.engines import add_net_flags, stages
from swcaffe.cli.flags import Flags
from swcaffe.errors import DataError, UsageError
from swcaffe.files import write_atomically
from swcaffe.net.definition import read_definition
from swcaffe.net.deploy import deploy_net
from swcaffe.net.filters import filter_net
from swcaffe.net.layer import Phase
from swcaffe.proto.prototxt import write

__all__ = ["run"]


def _input(text: str) -> tuple[str, Shape]:
    """`data=1,3,32,32`."""
    name, equals, sizes = text.partition("=")
    try:
        shape = tuple(int(size) for size in sizes.split(","))
    except ValueError:
        shape = ()
    if not (name and equals and shape and min(shape) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=N,C,H,W")
    return name, shape


def run(argv: Sequence[str]) -> int:
    """Write the file, or print it; 0."""
    flags = Flags(
        "deploy",
        "Turn a training net into one that takes data from outside: data layers become an Input,\n"
        "losses become predictions, accuracies go.",
    )
    flags.add_argument(
        "--input",
        type=_input,
        action="append",
        metavar="NAME=N,C,H,W",
        help="a blob to feed, with its shape; may be given several times (required)",
    )
    flags.add_argument("--output", metavar="FILE", help="where to write (standard output)")
    add_net_flags(flags)
    flags.add_argument("model", metavar="TRAIN_VAL")
    args = flags.parse(argv)
    if not args.input:
        raise UsageError(
            "swcaffe deploy needs --input NAME=N,C,H,W", fix="--input data=1,3,227,227"
        )
    definition = filter_net(
        read_definition(
            args.model, Phase.TEST, level=args.level, stages=stages(args), lenient=args.lenient
        )
    )
    text = write(deploy_net(definition.name, definition.layers, dict(args.input)))
    if args.output:
        with write_atomically(Path(args.output), DataError) as part:
            part.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0
