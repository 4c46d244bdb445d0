"""The solver logs what the reference Caffe logs, line by line and in the same order."""

from __future__ import annotations

import logging
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import swcaffe.layers  # noqa: F401  fills the registry
from swcaffe.engine.engine import create_engine
from swcaffe.solver.solver import Solver

HERE = Path(__file__).parent
SPEED = re.compile(r"\(.* iter/s, .*s/(\d+) iters\)")
NUMBER = re.compile(r"(?<![\w.#])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")


def test_solver_logs_line_by_line_what_the_reference_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    for path in (HERE / "log").glob("*.prototxt"):
        shutil.copy(path, tmp_path)
    shutil.copytree(HERE / "interop" / "digits_lmdb", tmp_path / "digits_lmdb")
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.INFO, logger="swcaffe"):
        solver = Solver.from_file("solver.prototxt", create_engine("host"))
        solver.solve()
        solver.close()
    ours = []
    for record in caplog.records:
        file = getattr(record, "origin", "").split(":")[0]
        if file in ("solver.cpp", "sgd_solver.cpp"):
            ours.append(f"{file}] {record.getMessage()}".split("\n")[0].rstrip())
    expected = (HERE / "log" / "expected.txt").read_text().splitlines()
    theirs = [line.rstrip() for line in expected]
    ours = [SPEED.sub(r"(x iter/s, ys/\1 iters)", line) for line in ours]
    assert [NUMBER.sub("N", line) for line in ours] == [NUMBER.sub("N", line) for line in theirs]
    for mine, line in zip(ours, theirs, strict=True):
        numbers = [[float(n) for n in NUMBER.findall(text)] for text in (mine, line)]
        np.testing.assert_allclose(*numbers, rtol=2e-5, err_msg=line)
