"""Real processes under mpiexec, where an MPI is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import swcaffe

RANKS = Path(__file__).parent / "ranks.py"
BESIDE = Path(sys.executable).parent / "mpiexec"
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(
        MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
        reason="needs mpi4py and an MPI: pip install 'swcaffe[mpi]'",
    ),
]


def mpiexec(size, name):
    command = [str(MPIEXEC), "-n", str(size), sys.executable, str(RANKS), name]
    found = os.environ | {"PYTHONPATH": str(Path(swcaffe.__file__).parent.parent)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=found)


@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("name", ["collectives", "sums", "exchange"])
def test_processes_agree(size, name):
    result = mpiexec(size, name)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"done on {size}" in result.stdout


def test_a_silent_rank_is_named_and_the_job_ends_with_code_72():
    result = mpiexec(2, "silence")
    assert result.returncode == 72
    assert "rank 0 waited 0.3 s for rank 1 in ip1" in result.stdout
