"""Record what the reference Caffe logs while it trains log/solver.prototxt: log/expected.txt.

Run with the reference interpreter (README.md):

    python3.8 tests/reference/make_log.py

Kept are the lines of the solver, as "file] message"; the line numbers in files, which log readers
ignore, and the times are dropped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINE = re.compile(r"^[IWEF]\d+ [\d:.]+ +\d+ ((?:sgd_)?solver\.cpp):\d+\] (.*)$", re.MULTILINE)
SPEED = re.compile(r"\(.* iter/s, .*s/(\d+) iters\)")
CODE = "import caffe; caffe.set_mode_cpu(); caffe.get_solver('solver.prototxt').solve()"


def main() -> None:
    """Write log/expected.txt."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (HERE / "log").glob("*.prototxt"):
            shutil.copy(str(path), folder)
        shutil.copytree(str(HERE / "interop" / "digits_lmdb"), f"{folder}/digits_lmdb")
        command = [sys.executable, "-c", CODE]
        done = subprocess.run(command, cwd=folder, check=True, stderr=subprocess.PIPE)
    lines = [f"{file}] {text}" for file, text in LINE.findall(done.stderr.decode())]
    text = SPEED.sub(r"(x iter/s, ys/\1 iters)", "\n".join(lines))
    (HERE / "log" / "expected.txt").write_text(text + "\n")


if __name__ == "__main__":
    main()
