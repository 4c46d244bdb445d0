"""`swcaffe time`: Caffe's table of layer times and, for the SW26010, what the model predicts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from swcaffe.cli.engines import add_engine_flags, add_net_flags, make_engine, stages
from swcaffe.cli.flags import Flags, positive
from swcaffe.engine.engine import Estimate, Plan
from swcaffe.engine.recording import RecordingEngine
from swcaffe.errors import UsageError
from swcaffe.log import number
from swcaffe.net.layer import Phase
from swcaffe.net.net import BuildOptions, Net

__all__ = ["run"]

log = logging.getLogger(__name__)


def _flags() -> Flags:
    flags = Flags("time", "Time a net layer by layer, forward and backward.")
    flags.add_argument("--model", metavar="FILE", help="net prototxt (required)")
    flags.add_argument("--iterations", type=positive, default=50, metavar="N", help="passes (50)")
    flags.add_argument(
        "--phase", choices=["TRAIN", "TEST"], default="TRAIN", help="of the net (TRAIN)"
    )
    flags.add_argument("--weights", default="", metavar="FILE", help="ignored, as in Caffe")
    add_engine_flags(flags)
    add_net_flags(flags)
    return flags


@dataclass
class _Timing:
    """One layer in one direction: seconds over all iterations, and the plans of one run."""

    seconds: float = 0.0
    plans: list[Plan] = field(default_factory=list)

    def ms(self, iterations: int) -> str:
        return number(1000 * self.seconds / iterations)


def _say(line: int, text: str, *args: object) -> None:
    log.info(text, *args, extra={"origin": f"caffe.cpp:{line}"})


def _measure(call: Callable[[], object], timing: _Timing, engine: RecordingEngine) -> None:
    start = time.perf_counter()
    call()
    timing.seconds += time.perf_counter() - start
    timing.plans = engine.take()


def _combine(plans: Sequence[Plan]) -> Estimate | None:
    """The estimates of plans that run one after another; the bound is that of the longest."""
    known = [e for e in (plan.estimate() for plan in plans) if e is not None]
    if not known:
        return None
    resources: dict[str, float] = {}
    for estimate in known:
        for name, seconds in estimate.resources.items():
            resources[name] = resources.get(name, 0.0) + seconds
    return Estimate(
        seconds=sum(e.seconds for e in known),
        flops=sum(e.flops for e in known),
        dma_bytes=sum(e.dma_bytes for e in known),
        bound=max(known, key=lambda e: e.seconds).bound,
        resources=resources,
    )


def _predictions(rows: list[tuple[str, _Timing]], iterations: int, machine: str) -> list[str]:
    """A table of measured beside predicted times; empty for an engine that predicts nothing."""
    lines = []
    total = 0.0
    for name, timing in rows:
        estimate = _combine(timing.plans)
        if estimate is None:
            continue
        total += estimate.seconds
        routes = ", ".join(dict.fromkeys(plan.route for plan in timing.plans))
        lines.append(
            f"{name:<28} {timing.ms(iterations):>10} {1000 * estimate.seconds:>10.4g} "
            f"{estimate.flops / 1e6:>10.4g} {estimate.dma_bytes / 1e6:>10.4g}  "
            f"{estimate.bound:<8} {routes}"
        )
    if not lines:
        return []
    head = (
        f"{'layer and direction':<28} {'here ms':>10} {'there ms':>10} {'Mflop':>10} "
        f"{'DMA MB':>10}  {'bound':<8} computed by"
    )
    return [f"Predicted time on {machine} (\"there\") beside the time measured here:", head, *lines,
            f"{'sum':<28} {'':>10} {1000 * total:>10.4g}"]  # fmt: skip


def run(argv: Sequence[str]) -> int:
    """Time a net; 0."""
    args = _flags().parse(argv)
    if not args.model:
        raise UsageError("swcaffe time needs --model FILE", fix="swcaffe time --help")
    engine = RecordingEngine(make_engine(args))
    net = Net.from_file(
        args.model,
        Phase[args.phase],
        BuildOptions(engine),
        level=args.level,
        stages=stages(args),
        lenient=args.lenient,
    )
    try:
        _time(net, engine, args.iterations)
    finally:
        net.close()
    return 0


def _time(net: Net, engine: RecordingEngine, iterations: int) -> None:
    _say(354, "Performing Forward")
    _say(360, "Initial loss: %s", number(net.forward()))
    _say(361, "Performing Backward")
    net.backward()
    engine.take()
    _say(369, "*** Benchmark begins ***")
    _say(370, "Testing for %d iterations.", iterations)
    count = len(net.nodes)
    forward = [_Timing() for _ in range(count)]
    backward = [_Timing() for _ in range(count)]
    begin = time.perf_counter()
    for j in range(iterations):
        start = time.perf_counter()
        for i in range(count):
            _measure(lambda i=i: net.forward_node(i), forward[i], engine)  # type: ignore[misc]
        for i in reversed(range(count)):
            _measure(lambda i=i: net.backward_node(i), backward[i], engine)  # type: ignore[misc]
        elapsed = 1000 * (time.perf_counter() - start)
        _say(400, "Iteration: %d forward-backward time: %s ms.", j + 1, number(elapsed))
    total = 1000 * (time.perf_counter() - begin)
    _report(net, forward, backward, iterations, total)
    rows = []
    for node, there, back in zip(net.nodes, forward, backward, strict=True):
        rows.append((f"{node.layer.name} forward", there))
        rows.append((f"{node.layer.name} backward", back))
    for line in _predictions(rows, iterations, engine.name):
        print(line)


def _report(
    net: Net, forward: list[_Timing], backward: list[_Timing], iterations: int, total: float
) -> None:
    _say(403, "Average time per layer: ")
    for node, there, back in zip(net.nodes, forward, backward, strict=True):
        name = node.layer.name
        _say(406, "%10s\tforward: %s ms.", name, there.ms(iterations))
        _say(409, "%10s\tbackward: %s ms.", name, back.ms(iterations))
    sums = [1000 * sum(t.seconds for t in part) / iterations for part in (forward, backward)]
    _say(414, "Average Forward pass: %s ms.", number(sums[0]))
    _say(416, "Average Backward pass: %s ms.", number(sums[1]))
    _say(418, "Average Forward-Backward: %s ms.", number(total / iterations))
    _say(420, "Total Time: %s ms.", number(total))
    _say(421, "*** Benchmark ends ***")
