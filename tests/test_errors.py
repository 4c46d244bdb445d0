"""What errors say: place, message and fix, and that no error a user can meet lacks a fix."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

import swcaffe
from swcaffe import errors
from swcaffe.errors import DataError, NetError, SwcaffeError, locate, unknown_name
from swcaffe.net.layer import ItemError

ROOT = Path(swcaffe.__file__).parent
BELOW = ("codegen", "cost", "execute", "ir", "machine", "microkernel", "schedule", "tune")
"""Packages whose errors name a statement of a program instead: no user's file is at fault."""

RAISED = {*errors.__all__, "ItemError", "error", "_error"}
"""Names under which errors are raised: classes, and parameters that hold one."""


def files() -> list[Path]:
    found = ROOT.rglob("*.py")
    return sorted(p for p in found if p.relative_to(ROOT).parts[0] not in BELOW)


def unfixed(path: Path) -> list[str]:
    """Raise statements of errors of ours that give no fix."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            called = node.exc.func
            name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
            if name in RAISED and not any(k.arg == "fix" for k in node.exc.keywords):
                found.append(f"{path}:{node.lineno}: {ast.unparse(node.exc)}")
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_error_a_user_can_meet_says_how_to_mend_it(path: Path) -> None:
    report_of_a_whole_file = "_error(name, sorted(set(parser.errors)))"  # each line has its hint
    assert [line for line in unfixed(path) if report_of_a_whole_file not in line] == []


def test_the_rule_itself_can_fail(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("raise DataError('x')\nraise error('y', where='z')\nraise KeyError('k')\n")
    assert [line.split(": ")[0] for line in unfixed(path)] == [f"{path}:1", f"{path}:2"]


def test_place_message_and_fix_are_two_lines() -> None:
    assert str(DataError("m")) == "m"
    assert str(DataError("m", where="f:1", fix="mend")) == "f:1: m\n  fix: mend"


def test_the_first_place_stays_and_the_subject_is_named_once() -> None:
    with (
        pytest.raises(NetError) as caught,
        locate("outer:1", 'layer "c" (ReLU)'),
        locate("inner:2", 'layer "c" (ReLU)'),
    ):
        raise NetError("m", fix="x")
    assert str(caught.value) == 'inner:2: layer "c" (ReLU): m\n  fix: x'


@pytest.mark.parametrize("kind", [DataError, ItemError])
def test_errors_cross_processes_whole(kind: type[SwcaffeError]) -> None:
    error = kind("m", where="f:1", fix="mend")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (kind, str(error))


def test_unknown_names_list_the_nearest_first() -> None:
    text = unknown_name("filler", "Xaviar", ["gaussian", "xavier"])
    assert text == "unknown filler 'Xaviar' (did you mean 'xavier'?); known: gaussian, xavier"
    assert "did you mean" not in unknown_name("filler", "q", ["gaussian"])
