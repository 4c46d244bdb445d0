"""The team of threads and the loading of compiled tasks."""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import swcaffe
from swcaffe.engine.host import create
from swcaffe.engine.host.native import carray, entry, floats
from swcaffe.engine.host.plans import TaskPlan, fields
from swcaffe.engine.host.team import Team, task
from swcaffe.errors import EngineError, ShapeError
from swcaffe.operators.activation import ActivationForward
from swcaffe.operators.gemm import Gemm

LAYOUT = fields("values", "part")


@task(LAYOUT)
def count_up(table: Any, index: int, worker: int) -> None:
    """Add 1 to the elements of a part, one by one."""
    t = carray(table, 1)[0]
    values = floats(t.values + 4 * index * t.part, t.part)
    for i in range(t.part):
        values[i] += 1


def run(team: Team, values: np.ndarray, parts: int) -> None:
    table = np.zeros(1, LAYOUT)
    table["values"], table["part"] = values.ctypes.data, len(values) // parts
    with team.lock:
        team.run(count_up.address, table.ctypes.data, parts)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_task_is_done_exactly_once(size):
    team, values = Team(size), np.zeros(64 * 20, np.float32)
    for _ in range(2000):
        run(team, values, 64)
    assert (values == 2000).all()


def test_helpers_that_fell_asleep_are_woken_and_do_no_harm():
    team, values = Team(3), np.zeros(640, np.float32)
    for _ in range(20):
        time.sleep(0.005)
        run(team, values, 64)
    assert (values == 20).all()


def test_two_callers_take_turns():
    team = Team(2)
    both = [np.zeros(640, np.float32) for _ in range(2)]

    def work(values: np.ndarray) -> None:
        for _ in range(500):
            run(team, values, 64)

    threads = [threading.Thread(target=work, args=(values,)) for values in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((values == 500).all() for values in both)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_starts_helpers_of_its_own():
    team, values = Team(2), np.zeros(640, np.float32)
    run(team, values, 64)
    child = os.fork()
    if child == 0:
        run(team, values, 64)
        os._exit(0 if (values == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_must_not_be_negative():
    with pytest.raises(EngineError, match="threads is -1"):
        create(threads=-1)


def test_the_engine_says_what_it_is():
    text = create(threads=2).describe()
    assert "float32" in text and "2 threads" in text


def test_arrays_that_do_not_fit_are_refused_before_any_is_touched():
    plan = create(threads=1).plan(ActivationForward("relu", 100))
    right, short = np.ones(100, np.float32), np.ones(99, np.float32)
    with pytest.raises(ShapeError, match="operand dst of ActivationForward"):
        plan(right, short)
    with pytest.raises(ShapeError, match="float64"):
        plan(right.astype(np.float64), right)
    with pytest.raises(ShapeError, match="takes 2 arrays, got 1"):
        plan(right)
    with pytest.raises(ShapeError, match="C-contiguous"):
        plan(np.ones(200, np.float32)[::2], right)


def test_a_plan_tells_its_route_and_who_refused():
    text = create(threads=1).plan(Gemm(2, 3, 4)).explain()
    assert "host: packed product" in text
    assert "dot products refused: a or b is not contiguous along k" in text


def test_damaged_cache_files_are_compiled_around(caplog):
    calls = []

    def damaged(cache: bool) -> str:
        calls.append(cache)
        if cache:
            raise pickle.UnpicklingError("invalid load key")
        return "compiled"

    from swcaffe.engine.host.native import _cached

    with caplog.at_level(logging.WARNING):
        assert _cached(damaged, run) == "compiled"
    assert calls == [True, False] and "invalid load key" in caplog.text


def test_entries_are_callable_from_python():
    @entry("int64(int64)")
    def twice(value: int) -> int:
        return 2 * value

    assert twice(21) == 42


@pytest.mark.slow
def test_an_installation_that_cannot_be_written_to_still_works(tmp_path):
    package = tmp_path / "swcaffe"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(swcaffe.__file__).parent, package, ignore=ignore)
    for cache in (package / "engine" / "host" / "__pycache__", package / "__pycache__"):
        cache.write_text("a file where the cache should be")
    code = (
        "import numpy as np\n"
        "from swcaffe.engine.host import create\n"
        "from swcaffe.operators.activation import ActivationForward\n"
        "x = np.array([-1, 2], 'f')\n"
        "create(threads=1).plan(ActivationForward('relu', 2))(x, x)\n"
        "assert x.tolist() == [0, 2]\n"
    )
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PYTHONPATH": str(tmp_path), "HOME": str(home), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-B", "-c", code]
    subprocess.run(command, check=True, env=environment, cwd=tmp_path)
    assert list(home.rglob("*.nbi")), "the user's cache was not used"


def test_plans_of_an_engine_share_scratch_of_the_largest():
    engine = create(threads=2)
    plans = [engine.plan(Gemm(m, 64, 300, trans_a=True)) for m in (40, 700, 300)]
    sizes = []
    for plan, m in zip(plans, (40, 700, 300), strict=True):
        arrays = [np.zeros(o.shape, np.float32) for o in (*plan.op.inputs, *plan.op.outputs)]
        plan(*arrays)
        assert isinstance(plan, TaskPlan)
        sizes.append(plan._workspace._block.nbytes)
        assert sizes[-1] >= 4 * m * 300
    assert plans[0]._workspace is plans[2]._workspace
    assert sizes[1] == sizes[2]
