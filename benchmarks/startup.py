"""Seconds from the command to the first iteration of LeNet, warm: `swcaffe train` as a user starts it.

    python benchmarks/startup.py [--engines host sw26010:tile] [--repeats 7]

Needs data/mnist (tools/quickstart.sh makes it). The first run of each engine, which may compile
kernels, is shown apart; the median is of the others. Engines take turns.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def solver(folder: Path) -> Path:
    """LeNet's solver without tests and for one iteration."""
    text = (ROOT / "prototxt_models/lenet/solver.prototxt").read_text()
    text = re.sub(r"^test_\w+:.*\n", "", text, flags=re.M)
    text = re.sub(r"^(max_iter): \d+", r"\1: 1", text, flags=re.M)
    text = re.sub(r"^snapshot_prefix: .*", f'snapshot_prefix: "{folder}/lenet"', text, flags=re.M)
    path = folder / "solver.prototxt"
    path.write_text(text)
    return path


def seconds_to_first_iteration(path: Path, engine: str, fidelity: str) -> float:
    command = [sys.executable, "-m", "swcaffe", "train", "--solver", str(path), "--engine", engine]
    command += ["--fidelity", fidelity] if fidelity else []
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "Iteration 0 (" in line:
            found = time.perf_counter() - start
            process.stderr.read()
            process.wait()
            return found
    raise RuntimeError(f"{' '.join(command)} ended without an iteration")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="+", default=["host", "sw26010:tile"])
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        path = solver(Path(name))
        engines = [tuple(f"{engine}:".split(":")[:2]) for engine in args.engines]
        times: dict[tuple[str, ...], list[float]] = {engine: [] for engine in engines}
        for _ in range(args.repeats + 1):
            for engine in engines:
                times[engine].append(seconds_to_first_iteration(path, *engine))
    for engine, (first, *rest) in times.items():
        label = " ".join(filter(None, engine))
        print(f"{label:<14} median {statistics.median(rest):.2f} s, first run {first:.2f} s")


if __name__ == "__main__":
    main()
