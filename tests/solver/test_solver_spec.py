"""Which nets a solver file asks for, and the contradictions it may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from swcaffe.errors import ParameterError, SwcaffeError
from swcaffe.net.layer import Phase
from swcaffe.proto import messages
from swcaffe.proto.prototxt import parse, read_solver
from swcaffe.solver.spec import check_settings, solver_nets

NET = 'name: "n" layer { name: "d" type: "Input" top: "d" input_param { shape { dim: 1 } } }'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.prototxt").write_text(NET.replace('"n"', f'"{name}"'))
    return tmp_path


def nets(folder: Path, text: str) -> tuple[str, list[str]]:
    parsed = parse(text, messages.SolverParameter, name="s.prototxt")
    found = solver_nets(parsed.message, folder, parsed.source_map)
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
    parsed = parse(
        'net: "s.prototxt" train_state { stage: "t" } test_iter: 1 test_interval: 1 '
        'test_state { level: 3 stage: "u" }',
        messages.SolverParameter,
    )
    found = solver_nets(parsed.message, folder, parsed.source_map)
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
    with pytest.raises(ParameterError, match=message) as caught:
        nets(folder, f"\n{text}")
    assert caught.value.where == ("s.prototxt" if "got none" in message else "s.prototxt:2")


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("lr_policy: 'fixed'", "s", "base_lr is missing"),
        ("lr_policy: 'fixed'\nbase_lr: nan", "s:2", "base_lr is nan"),
        ("base_lr: inf", "s:1", "base_lr is inf"),
        ("base_lr: -0.1", "s:1", "base_lr is -0.1"),
        ("base_lr: 1\n\nmomentum: 1", "s:3", "momentum is 1\n  fix: give 0 or more and below 1"),
        ("base_lr: 1 momentum: -0.5", "s:1", "momentum is -0.5"),
        ("base_lr: 1 momentum2: 1", "s:1", "momentum2 is 1"),
        ("base_lr: 1 weight_decay: nan", "s:1", "weight_decay is nan"),
        ("base_lr: 1 max_iter: -4", "s:1", "max_iter is -4"),
        ("base_lr: 1 display: -1", "s:1", "display is -1"),
        ("base_lr: 1 test_interval: -1", "s:1", "test_interval is -1"),
        ("base_lr: 1 iter_size: 0", "s:1", "iter_size is 0\n  fix: give 1 or more"),
    ],
)
def test_settings_with_which_training_means_nothing_are_refused(
    text: str, where: str, message: str
) -> None:
    parsed = parse(text, messages.SolverParameter, name="s")
    with pytest.raises(ParameterError, match=message) as caught:
        check_settings(parsed.message, parsed.source_map)
    assert caught.value.where == where
    assert caught.value.fix


def test_a_rate_of_zero_is_a_setting_like_others() -> None:
    parsed = parse("base_lr: 0 momentum: 0 max_iter: 0", messages.SolverParameter)
    check_settings(parsed.message, parsed.source_map)


def test_the_old_solver_type_becomes_a_name_and_may_not_stand_beside_one(tmp_path: Path) -> None:
    path = tmp_path / "s.prototxt"
    path.write_text('net: "x" solver_type: ADAM')
    assert read_solver(path).message.type == "Adam"
    path.write_text('net: "x"\ntype: "SGD"\nsolver_type: ADAM')
    with pytest.raises(SwcaffeError, match="solver_type"):
        read_solver(path)
