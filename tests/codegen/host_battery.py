"""Programs as C, built with gcc and run under the host runtime: equal to the reference, counted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from swcaffe.codegen.files import write_sources
from swcaffe.cost.count import count
from swcaffe.ir.stmt import Program
from swcaffe.ir.verify import verify
from swcaffe.machine.spec import Machine
from swcaffe.operators.base import Operator
from swcaffe.schedule.template import TEMPLATES

STRICT = (
    "CFLAGS=-O1 -g -Wall -Wextra -Werror"
    " -fsanitize=address,undefined -fno-sanitize-recover=undefined"
)
COUNTED = (
    "dma_get_bytes",
    "dma_put_bytes",
    "dma_transactions",
    "dma_descriptors",
    "row_messages",
    "col_messages",
    "ldm_peak_bytes",
)

needs_gcc = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")),
    reason="gcc and make, which are needed to build generated C, are not installed",
)


def programs_of(op: Operator, machine: Machine) -> dict[str, Program]:
    """A verified program of each template that takes the operator, by template name."""
    found = {}
    for template in TEMPLATES[type(op)]:
        if template.refuse(op, machine) is None:
            config = template.shortlist(op, machine, 1)[0]
            found[template.name] = template.build(op, config, machine)
            verify(found[template.name], machine)
    return found


def build(
    directory: Path, programs: Mapping[str, Program], machine: Machine, flags: str = ""
) -> Path:
    """Write and make with every warning an error, and with sanitizers; the folder."""
    write_sources(directory, programs, machine)
    made = subprocess.run(
        ["make", "-s", f"{STRICT} {flags}"],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    return directory


def run(
    directory: Path, name: str, arrays: Sequence[np.ndarray]
) -> subprocess.CompletedProcess[str]:
    """Run a program of the folder on arrays, which are overwritten with what it leaves."""
    files = [directory / f"{name}_{i}.bin" for i in range(len(arrays))]
    for file, array in zip(files, arrays, strict=True):
        array.tofile(file)
    done = subprocess.run(
        ["./run", name, *(file.name for file in files)],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    for file, array in zip(files, arrays, strict=True):
        array[...] = np.fromfile(file, array.dtype).reshape(array.shape)
    return done


def check(
    directory: Path,
    name: str,
    op: Operator,
    program: Program,
    machine: Machine,
    operands: Sequence[np.ndarray] = (),
) -> None:
    """Results within the operator's tolerance, inputs untouched, every count that of the model."""
    rng = np.random.default_rng(7)
    drawn = [rng.standard_normal(o.shape).astype(np.float32) for o in (*op.inputs, *op.outputs)]
    drawn = list(operands) or drawn
    wanted = [array.copy() for array in drawn]
    op.run_reference(*wanted)
    found = [array.copy() for array in drawn]
    done = run(directory, name, found)
    assert done.returncode == 0, done.stderr
    pairs = list(zip(found, wanted, strict=True))
    for operand, (result, reference) in zip(op.inputs, pairs, strict=False):
        assert np.array_equal(result, reference), f"input {operand.name} of {op}"
    for operand, (result, reference) in zip(op.outputs, pairs[len(op.inputs) :], strict=True):
        assert operand.dtype == "float32" or np.array_equal(result, reference), operand
        error = np.linalg.norm(result - reference) / max(np.linalg.norm(reference), 1e-30)
        assert error <= op.tolerance(), f"{operand.name} of {op}: {error:g}"
    words = done.stdout.split()
    counters = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    predicted = count(program, machine)
    assert counters == {item: getattr(predicted, item) for item in COUNTED}
