"""Curves of a training run, read from a log in Caffe's form or from JSON lines."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from swcaffe.errors import DataError

__all__ = ["Curve", "read_curves"]

ITERATION = re.compile(r"Iteration (\d+)")
OUTPUT = re.compile(r"(Train|Test) net output #\d+: (\S+) = ([-+.\deE]+|nan|-?inf)")
RATE = re.compile(r"\blr = ([-+.\deE]+)")


@dataclass
class Curve:
    """One quantity over iterations; `name` is "train loss", "test accuracy", "lr"."""

    name: str
    iterations: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class _Curves(dict[str, Curve]):
    def add(self, name: str, iteration: int, value: float) -> None:
        curve = self.setdefault(name, Curve(name))
        if curve.iterations and curve.iterations[-1] == iteration:
            return  # further elements of an output: the first stands for it
        curve.iterations.append(iteration)
        curve.values.append(value)


def _from_log(text: str) -> _Curves:
    curves = _Curves()
    iteration: int | None = None
    for line in text.splitlines():
        found = ITERATION.search(line)
        if found:
            iteration = int(found[1])
        if iteration is None:
            continue
        output, rate = OUTPUT.search(line), RATE.search(line)
        if output:
            curves.add(f"{output[1].lower()} {output[2]}", iteration, float(output[3]))
        elif rate:
            curves.add("lr", iteration, float(rate[1]))
    return curves


def _from_json(text: str, path: Path) -> _Curves:
    curves = _Curves()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            event = json.loads(line)
            if event["event"] not in ("train", "test"):
                continue
            if "lr" in event:
                curves.add("lr", event["iteration"], event["lr"])
            for name, value in event["outputs"].items():
                first = value[0] if isinstance(value, list) else value
                number_or_nan = math.nan if first is None else first
                curves.add(f"{event['event']} {name}", event["iteration"], number_or_nan)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataError(
                f"not a training event: {error!r}",
                where=f"{path}:{number}",
                fix="give the file of --log_json, or a log",
            ) from error
    return curves


def read_curves(path: Path) -> dict[str, Curve]:
    """Curves by name. Raises DataError if the file cannot be read or holds none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}",
            fix="check the path and that the file may be read",
        ) from error
    curves = _from_json(text, path) if text.startswith("{") else _from_log(text)
    if not any(name != "lr" for name in curves):
        raise DataError(
            f"{path} holds no train or test output",
            fix="give the standard error of swcaffe train, or the file of its --log_json",
        )
    return curves
