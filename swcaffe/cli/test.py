"""`swcaffe test`: score a trained net over batches, or exactly once over its data."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence

import numpy as np

from swcaffe.arrays import F64
from swcaffe.cli.engines import add_engine_flags, add_net_flags, make_engine, stages
from swcaffe.cli.flags import Flags, boolean, positive
from swcaffe.errors import UsageError
from swcaffe.log import number
from swcaffe.net.layer import Layer, Phase
from swcaffe.net.net import BuildOptions, Net
from swcaffe.net.weights import load_weights
from swcaffe.solver.display import warn_of_repeats

__all__ = ["run"]

log = logging.getLogger(__name__)


def _flags() -> Flags:
    flags = Flags("test", "Score a trained net: mean outputs over a number of batches.")
    flags.add_argument("--model", metavar="FILE", help="net prototxt (required)")
    flags.add_argument("--weights", metavar="FILE", help="caffemodel to score (required)")
    flags.add_argument("--iterations", type=positive, default=50, metavar="N", help="batches (50)")
    flags.add_argument(
        "--all",
        type=boolean,
        default=False,
        metavar="BOOL",
        help="every record once, whatever --iterations says; the last batch may be smaller (false)",
    )
    flags.add_argument(
        "--bad_records",
        choices=["error", "skip"],
        default="error",
        help="what an unreadable record does (error)",
    )
    add_engine_flags(flags)
    add_net_flags(flags)
    return flags


def _say(line: int, text: str, *args: object) -> None:
    log.info(text, *args, extra={"origin": f"caffe.cpp:{line}"})


class _Scores:
    """Weighted sums of the loss and of every output element."""

    def __init__(self, net: Net) -> None:
        self.net = net
        self.sums: dict[int, F64] = {i: np.zeros(net.blobs[i].count) for i in net.outputs}
        self.loss = 0.0
        self.weight = 0.0

    def add(self, batch: int, reader: Layer | None = None) -> None:
        """Run one batch; it weighs as many as the records that `reader` found, else one."""
        loss = self.net.forward()
        weight = 1 if reader is None else len(reader.records)
        if not weight:
            return  # all that was left of the pass was bad
        self.loss += weight * loss
        self.weight += weight
        for i, total in self.sums.items():
            values = self.net.blobs[i].data.reshape(-1)
            total += weight * values
            for value in values:
                _say(313, "Batch %d, %s = %s", batch, self.net.blob_names[i], number(value))

    def show(self) -> None:
        """Log the means."""
        weights = self.net.blob_loss_weights()
        _say(318, "Loss: %s", number(self.loss / self.weight))
        for i, total in self.sums.items():
            for value in total / self.weight:
                text = f"{self.net.blob_names[i]} = {number(value)}"
                if weights[i]:
                    text += f" (* {number(weights[i])} = {number(weights[i] * value)} loss)"
                _say(330, "%s", text)


def run(argv: Sequence[str]) -> int:
    """Score a net; 0."""
    args = _flags().parse(argv)
    for name in ("model", "weights"):
        if not getattr(args, name):
            raise UsageError(f"swcaffe test needs --{name} FILE", fix="swcaffe test --help")
    options = BuildOptions(make_engine(args), bad_records=args.bad_records)
    net = Net.from_file(
        args.model,
        Phase.TEST,
        options,
        level=args.level,
        stages=stages(args),
        lenient=args.lenient,
    )
    try:
        if missing := load_weights(net, args.weights):
            log.warning(
                "%s has no weights for %s: what is scored is their first, random values",
                args.weights,
                ", ".join(missing),
            )
        scores = _Scores(net)
        if args.all:
            _score_all(net, scores)
        else:
            warn_of_repeats(net, args.iterations, args.model)
            _say(281, "Running for %d iterations.", args.iterations)
            for batch in range(args.iterations):
                scores.add(batch)
        net.log_summaries()
        scores.show()
    finally:
        net.close()
    return 0


def _score_all(net: Net, scores: _Scores) -> None:
    """One pass over the records of the net's reader; every good one counts once."""
    readers = [layer for layer in net.layers if layer.epoch() is not None]
    if len(readers) != 1:
        names = ", ".join(layer.name for layer in readers) or "none"
        raise UsageError(
            f"--all needs exactly one layer that reads a data set, this net has: {names}",
            fix="use --iterations",
        )
    (reader,) = readers
    reader.start_pass()
    _say(281, "Running once over %d records.", reader.left())
    for batch in itertools.takewhile(lambda _: reader.left(), itertools.count()):
        scores.add(batch, reader)
