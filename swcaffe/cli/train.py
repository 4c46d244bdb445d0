"""`swcaffe train`: train, fine-tune or resume, with Caffe's flags, signals and log."""

from __future__ import annotations

import argparse
import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from swcaffe.cli.engines import add_engine_flags, add_net_flags, make_engine, stages
from swcaffe.cli.flags import Flags, boolean
from swcaffe.cli.json_lines import JsonLines
from swcaffe.cli.notice import StartNotice
from swcaffe.cli.progress import progress_bar
from swcaffe.errors import UsageError
from swcaffe.proto import messages
from swcaffe.proto.prototxt import Parsed, read_solver
from swcaffe.solver.actions import Action, SignalActions
from swcaffe.solver.solver import Solver, SolverOptions

__all__ = ["run"]

log = logging.getLogger(__name__)


def _flags() -> Flags:
    flags = Flags("train", "Train the net of a solver file, from scratch, weights or a snapshot.")
    flags.add_argument("--solver", metavar="FILE", help="solver prototxt (required)")
    flags.add_argument("--snapshot", metavar="FILE", help="solverstate to resume from")
    flags.add_argument(
        "--weights", metavar="FILES", help="caffemodels to start from, comma-separated"
    )
    add_engine_flags(flags)
    add_net_flags(flags)
    effects = [action.value for action in Action]
    flags.add_argument(
        "--sigint_effect", choices=effects, default="stop", help="what Ctrl-C does (stop)"
    )
    flags.add_argument(
        "--sighup_effect", choices=effects, default="snapshot", help="on SIGHUP (snapshot)"
    )
    flags.add_argument(
        "--resume_data",
        type=boolean,
        default=True,
        metavar="BOOL",
        help="with --snapshot, continue reading where the run stopped; false starts at the first "
        "record, as Caffe does (true)",
    )
    flags.add_argument(
        "--on_non_finite",
        choices=["stop", "warn"],
        default="stop",
        help="when a loss or gradient is NaN or infinite (stop)",
    )
    flags.add_argument(
        "--bad_records",
        choices=["error", "skip"],
        default="error",
        help="what an unreadable record does (error)",
    )
    flags.add_argument("--log_json", metavar="FILE", help="write one JSON object a line as well")
    flags.add_argument(
        "--progress",
        type=boolean,
        default=True,
        metavar="BOOL",
        help="progress bar, on a terminal only (true)",
    )
    return flags


def _read(args: argparse.Namespace) -> Parsed:
    """The SolverParameter, with what the flags change in it, and its places."""
    if not args.solver:
        raise UsageError("swcaffe train needs --solver FILE", fix="swcaffe train --help")
    if args.snapshot and args.weights:
        raise UsageError(
            "--snapshot and --weights exclude each other",
            fix="--snapshot continues a run; --weights starts a new one from trained weights",
        )
    parsed = read_solver(Path(args.solver), lenient=args.lenient)
    param = parsed.message
    param.train_state.level = args.level
    param.train_state.stage.extend(stages(args))
    if args.snapshot or args.weights:
        del param.weights[:]
    if args.weights:
        param.weights.append(args.weights)
    return parsed


@contextmanager
def _signals(solver: Solver, args: argparse.Namespace) -> Iterator[SignalActions]:
    """Let signals reach the solver; SIGTERM stops, as a batch system expects."""
    effects = {
        signal.SIGINT: Action(args.sigint_effect),
        signal.SIGTERM: Action.STOP,
        signal.SIGHUP: Action(args.sighup_effect),
    }
    with SignalActions(effects) as actions:
        solver.next_action = actions
        yield actions


def run(argv: Sequence[str]) -> int:
    """Train; 0, or 128 + the number of the signal that stopped it."""
    args = _flags().parse(argv)
    parsed = _read(args)
    param = parsed.message
    cpu = param.HasField("solver_mode") and param.solver_mode == messages.SolverParameter.CPU
    engine = make_engine(args, default="host" if cpu else "sw26010")
    options = SolverOptions(
        resume_data=args.resume_data,
        on_non_finite=args.on_non_finite,
        bad_records=args.bad_records,
        lenient=args.lenient,
    )
    with ExitStack() as stack:
        base = Path(args.solver).parent
        solver = Solver(param, engine, base=base, places=parsed.source_map, options=options)
        stack.callback(solver.close)
        actions = stack.enter_context(_signals(solver, args))
        solver.listeners.append(stack.enter_context(StartNotice()))
        if args.log_json:
            solver.listeners.append(stack.enter_context(JsonLines(Path(args.log_json))))
        if args.progress:
            bar = stack.enter_context(progress_bar(param.max_iter))
            if bar:
                solver.listeners.append(bar)
        if args.snapshot:
            log.info("Resuming from %s", args.snapshot, extra={"origin": "caffe.cpp:241"})
        log.info("Starting Optimization", extra={"origin": "caffe.cpp:248"})
        solver.solve(args.snapshot)
        for net in (solver.net, *solver.test_nets):
            net.log_summaries()
        log.info("Optimization Done.", extra={"origin": "caffe.cpp:259"})
    return 128 + actions.stopped_by if actions.stopped_by else 0
