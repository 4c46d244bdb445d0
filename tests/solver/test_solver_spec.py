"""Which nets a solver file asks for, and the contradictions it may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from swcaffe.errors import ParameterError, SwcaffeError
from swcaffe.net.layer import Phase
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse, read_solver
from swcaffe.solver.spec import solver_nets

NET = 'name: "n" layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 1 } } }'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.prototxt").write_text(NET.replace('"n"', f'"{name}"'))
    return tmp_path


def nets(folder: Path, text: str) -> tuple[str, list[str]]:
    found = solver_nets(parse(text, messages.SolverParameter).message, folder)
    assert found.train.phase is Phase.TRAIN
    assert all(test.phase is Phase.TEST for test in found.tests)
    return found.train.name, [test.name for test in found.tests]


@pytest.mark.parametrize(
    ("text", "train", "tests"),
    [
        ('net: "a.prototxt"', "a", []),
        ('net: "a.prototxt" test_iter: 1 test_interval: 5', "a", ["a"]),
        ('net: "a.prototxt" test_iter: [1, 2] test_interval: 5', "a", ["a", "a"]),
        (
            'train_net: "a.prototxt" test_net: "b.prototxt" test_iter: 1 test_interval: 5',
            "a",
            ["b"],
        ),
        (
            'net: "a.prototxt" test_net: ["c.prototxt", "b.prototxt"] test_iter: [1, 1, 1] '
            "test_interval: 5",
            "a",
            ["c", "b", "a"],
        ),
        (f"net_param {{ {NET} }} test_iter: 1 test_interval: 1", "n", ["n"]),
    ],
)
def test_nets_in_order(folder: Path, text: str, train: str, tests: list[str]) -> None:
    assert nets(folder, text) == (train, tests)


def test_states_are_merged_last_over_the_nets_own(folder: Path) -> None:
    (folder / "s.prototxt").write_text('state { level: 1 stage: "own" } ' + NET)
    param = parse(
        'net: "s.prototxt" train_state { stage: "t" } test_iter: 1 test_interval: 1 '
        'test_state { level: 3 stage: "u" }',
        messages.SolverParameter,
    ).message
    found = solver_nets(param, folder)
    assert (found.train.state.level, list(found.train.state.stage)) == (1, ["own", "t"])
    test = found.tests[0].state
    assert (test.level, list(test.stage), test.phase) == (3, ["own", "u"], 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base_lr: 1", "exactly one of train_net_param, train_net, net_param, net; got none"),
        ('net: "a.prototxt" train_net: "b.prototxt"', "got train_net and net"),
        ('net: "a.prototxt" test_iter: 1', "test_interval is 0"),
        ('net: "a.prototxt" test_interval: 5', "there is no test_iter"),
        ('net: "a.prototxt" test_interval: 5 test_iter: 0', "test_iter must be positive, got 0"),
        (
            'train_net: "a.prototxt" test_net: "b.prototxt" test_iter: [1, 1] test_interval: 5',
            "2 test_iter for 1 test nets",
        ),
        (
            'net: "a.prototxt" test_iter: 1 test_interval: 5 test_state {} test_state {}',
            "2 test_state for 1 test nets",
        ),
    ],
)
def test_contradictions_are_refused(folder: Path, text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        nets(folder, text)


def test_the_old_solver_type_becomes_a_name_and_may_not_stand_beside_one(tmp_path: Path) -> None:
    path = tmp_path / "s.prototxt"
    path.write_text('net: "x" solver_type: ADAM')
    assert read_solver(path).message.type == "Adam"
    path.write_text('net: "x"\ntype: "SGD"\nsolver_type: ADAM')
    with pytest.raises(SwcaffeError, match="solver_type"):
        read_solver(path)
