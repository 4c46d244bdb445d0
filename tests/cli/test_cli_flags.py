"""Caffe's flag spellings, help, exit codes."""

from __future__ import annotations

import pytest

from swcaffe.cli.flags import Flags, boolean, positive
from swcaffe.cli.main import COMMANDS, main, split_command
from swcaffe.errors import UsageError


def flags() -> Flags:
    f = Flags("demo", "A demonstration.")
    f.add_argument("--solver")
    f.add_argument("--on_bad", default="stop")
    f.add_argument("--iterations", type=positive, default=50)
    f.add_argument("--shift", type=float, default=0.0)
    f.add_argument("--shuffle", type=boolean, default=False)
    f.add_argument("names", nargs="*")
    return f


@pytest.mark.parametrize(
    "words",
    [
        "-solver x --shuffle a b",
        "--solver=x -shuffle a b",
        "a -solver=x b -shuffle=true",
        "a b --solver x --shuffle=1",
        "-shuffle -solver x -- a b",
    ],
)
def test_all_spellings_mean_the_same(words: str) -> None:
    args = flags().parse(words.split())
    assert (args.solver, args.shuffle, args.names) == ("x", True, ["a", "b"])


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("--noshuffle", "shuffle", False),
        ("--shuffle=false", "shuffle", False),
        ("--on-bad skip", "on_bad", "skip"),
        ("-on_bad=skip", "on_bad", "skip"),
        ("--iterations 7", "iterations", 7),
        ("--shift -2.5", "shift", -2.5),
        ("--solver=", "solver", ""),
        ("--solver a=b", "solver", "a=b"),
        ("--solver train", "solver", "train"),
    ],
)
def test_values(words: str, name: str, value: object) -> None:
    assert getattr(flags().parse(words.split()), name) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--slover x", "unknown flag 'slover'.*did you mean 'solver'"),
        ("--solver", "--solver needs a value"),
        ("--iterations 0", "'0' is not a whole number from 1 on"),
        ("--iterations x", "'x' is not a whole number from 1 on"),
        ("--shuffle=maybe", "'maybe' is neither true nor false"),
    ],
)
def test_wrong_usage_is_named(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        flags().parse(words.split())


@pytest.mark.parametrize(
    ("words", "command", "rest"),
    [
        ("train --solver x", "train", ["--solver", "x"]),
        ("-solver x train", "train", ["-solver", "x"]),
        ("-phase test time", "time", ["-phase", "test"]),
        ("--solver=x train", "train", ["--solver=x"]),
        ("--help", None, ["--help"]),
    ],
)
def test_the_command_may_stand_anywhere(words: str, command: str | None, rest: list[str]) -> None:
    assert split_command(words.split()) == (command, rest)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: swcaffe {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        ([], 2, "usage: swcaffe COMMAND"),
        (["tarin"], 2, "did you mean 'train'"),
        (["train"], 2, "needs --solver FILE"),
        (["train", "--solver"], 2, "needs a value"),
        (["train", "--solver", "a", "--snapshot", "b", "--weights", "c"], 2, "exclude each other"),
        (["train", "--solver", "/no/such.prototxt"], 1, "/no/such.prototxt"),
        (["test", "--model", "/no/such.prototxt"], 2, "needs --weights FILE"),
        (["time", "--model", "/no/such.prototxt"], 1, "/no/such.prototxt"),
        (["plot", "/no/such.log"], 1, "/no/such.log"),
        (["convert_mnist_data", "/no/a", "/no/b", "/no/c"], 1, "/no/a"),
        (["compute_image_mean", "/no/db"], 1, "/no/db"),
    ],
)
def test_exit_codes_and_messages(
    argv: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
    error = capsys.readouterr().err
    assert text in error
    assert "Traceback" not in error


def test_version_and_help_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("swcaffe 0")
    assert all(command in out for command in COMMANDS)
