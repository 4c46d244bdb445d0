"""The tests of this folder beside every major release of protobuf, where pip can get them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
RELEASES = ["4.21.12", "4.25.8", "5.29.5", "6.31.1", "7.36.2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "implementation"),
    [
        *((release, "upb") for release in RELEASES),
        (RELEASES[0], "python"),
        (RELEASES[-1], "python"),
    ],
)
def test_beside_protobuf(tmp_path, release, implementation):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path]
    got = subprocess.run([*pip, f"protobuf=={release}"], capture_output=True, check=False)
    if got.returncode:
        pytest.skip(f"pip cannot install protobuf {release} here")
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
    }
    version = "import google.protobuf as p, google.protobuf.internal.api_implementation as a"
    found = subprocess.run(
        [sys.executable, "-c", f"{version}; print(p.__version__, a.Type())"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [release, implementation]
    skipped = "not schema_desc" + (" and not 70_mb" if implementation == "python" else "")
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    done = subprocess.run(
        [*tests, "-k", skipped, HERE],
        env=environment,
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
