"""`swcaffe plot`: loss and accuracy of a training run as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swcaffe.cli.flags import Flags
from swcaffe.report.curves import read_curves

__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """Draw; 0."""
    flags = Flags(
        "plot", "Draw loss and accuracy over iterations from a training log or its --log_json file."
    )
    flags.add_argument("--output", default="", metavar="PNG", help="(the log's name with .png)")
    flags.add_argument("--title", default="", metavar="TEXT", help="(none)")
    flags.add_argument("log", metavar="LOG")
    args = flags.parse(argv)
    curves = read_curves(Path(args.log))
    from swcaffe.report.plot import draw_curves

    output = Path(args.output or Path(args.log).with_suffix(".png"))
    draw_curves(curves, output, args.title)
    print(f"wrote {output}")
    return 0
