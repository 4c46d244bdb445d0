"""What README, docs and model pages say about commands, files and packages is so."""

from __future__ import annotations

import ast
import configparser
import contextlib
import importlib.util
import io
import json
import re
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from swcaffe.cli.main import COMMANDS, main

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
PAGES = [
    README,
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(ROOT.glob("prototxt_models/*/README.md")),
    ROOT / "data" / "digits" / "README.md",
]
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)\)")
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"swcaffe ([a-z_]+)((?: [^\n`|]*)?)")
FLAG = re.compile(r"(?<![\w-])--([a-z][\w-]*)")
MENTIONED = re.compile(r"`(--[a-z][^`]*)`")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text_of(page: Path) -> str:
    """A page with continued shell lines joined."""
    return page.read_text(encoding="utf-8").replace("\\\n", " ")


@cache
def help_of(command: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    return out.getvalue()


def flags_of(command: str) -> set[str]:
    return set(FLAG.findall(help_of(command)))


def known(flag: str, flags: set[str]) -> bool:
    """Whether a flag is there, as Caffe spells it: with dashes or underscores, or negated."""
    name = flag.replace("-", "_")
    return name in flags or name.removeprefix("no") in flags


def options_of(command: str) -> list[tuple[str, str]]:
    """(flag with its value's name, help text) of each option in a command's help."""
    lines = help_of(command).partition("options:\n")[2].splitlines()
    options: list[tuple[str, str]] = []
    for line in lines:
        if found := re.match(r"  (--\S.*?|-h, --help)(?:  +(.*))?$", line):
            options.append((found[1], found[2] or ""))
        elif line.startswith("   "):
            flag, text = options[-1]
            options[-1] = (flag, f"{text} {line.strip()}".strip())
    return options


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_linked_file_exists(page: Path) -> None:
    links = [link for link in LINK.findall(text_of(page)) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_and_flag_exists(page: Path) -> None:
    wrong = []
    for command, rest in CALL.findall(text_of(page)):
        if command in COMMANDS:
            rest = rest.partition("2>")[0].partition("#")[0]
            flags = flags_of(command)
            wrong += [f"{command} --{f}" for f in FLAG.findall(rest) if not known(f, flags)]
    anywhere = set().union(*(flags_of(command) for command in COMMANDS))
    for words in MENTIONED.findall(text_of(page)):
        wrong += [f"--{flag}" for flag in FLAG.findall(words) if not known(flag, anywhere)]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_whatever_is_called_as_a_command_is_one(page: Path) -> None:
    """In code, `swcaffe` is followed by a command; in prose it may be followed by anything."""
    fenced = re.findall(r"^```(?:bash)?\n(.*?)^```$|^    (.*)$", text_of(page), re.M | re.S)
    code = "\n".join("".join(parts) for parts in fenced)
    assert {command for command, _ in re.findall(r"^\s*swcaffe ([a-z_]+)(.*)$", code, re.M)} <= set(
        COMMANDS
    )
    quoted = re.findall(r"`swcaffe ([a-z_]+)", text_of(page))
    assert set(quoted) <= set(COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_script_and_module_called_exists(page: Path) -> None:
    text = text_of(page)
    scripts = re.findall(r"bash (\S+\.sh)", text)
    assert [script for script in scripts if not (ROOT / script).is_file()] == []
    modules = re.findall(r"python -m (swcaffe[\w.]*)", text)
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []


def test_the_pages_hold_python_to_run() -> None:
    assert PYTHON.search(README.read_text(encoding="utf-8"))
    assert PYTHON.search((ROOT / "docs" / "arithmetic.md").read_text(encoding="utf-8"))


def test_the_readme_lists_all_commands_and_no_other() -> None:
    table = re.findall(r"^\| `swcaffe (\w+)` \|", README.read_text(encoding="utf-8"), re.M)
    assert table == list(COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "tutorial.md"], ids=name_of)
def test_every_python_block_runs(page: Path) -> None:
    """From the top folder, each in a fresh process; the tutorial's have a test of their own."""
    for block in PYTHON.findall(page.read_text(encoding="utf-8")):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-"],
            input=block,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_the_default_of_every_flag(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flags that take files may be absent; every other names its default in brackets."""
    monkeypatch.setenv("COLUMNS", "100")
    options = options_of(command)
    assert next(flag for flag, _ in options) == "-h, --help"
    silent = [
        flag
        for flag, text in options[1:]
        if not re.search(r"\(.+\)$", text) and not re.search(r" (FILES?|IDS)$", flag)
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["train", "--solver", "no such file"], 1),
        (["train"], 2),
        (["trian"], 2),
        (["train", "--sover", "x"], 2),
        ([], 2),
    ],
)
def test_exit_codes_are_those_of_the_table(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    table = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| {code} \|", table, re.M)
    said = capsys.readouterr()
    assert said.out if code == 0 else said.err


def test_flags_may_be_spelt_as_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    for spelling in (["-solver", "none"], ["--solver", "none"], ["--solver=none"]):
        assert main(["train", *spelling, "--noprogress", "--log-json", "none"]) == 1
        assert main([*spelling, "train"]) == 1
        assert "none" in capsys.readouterr().err


def imported_packages() -> dict[str, set[str]]:
    """Third-party top-level module -> files that import it, wherever in the file."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "swcaffe").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                top = name.split(".")[0]
                if top != "swcaffe" and top not in sys.stdlib_module_names:
                    found.setdefault(top, set()).add(str(path.relative_to(ROOT)))
    return found


def required(text: str) -> set[str]:
    return {re.split(r"[<>=!~ ]", line)[0].lower() for line in text.strip().splitlines()}


def test_dependencies_are_what_the_code_imports() -> None:
    config = configparser.ConfigParser(delimiters="=")
    config.read(ROOT / "setup.cfg")
    users = {
        extra: required(text)
        for extra, text in config["options.extras_require"].items()
        if extra != "dev"
    }
    declared = required(config["options"]["install_requires"]).union(*users.values())
    owners = metadata.packages_distributions()
    needed = set()
    for module, files in imported_packages().items():
        names = {name.lower() for name in owners.get(module, [module])}
        assert names & declared or comes_with_numba(module), f"{module} is imported in {files}"
        needed |= names & declared
    libraries = {"mpich"}  # the MPI that mpi4py loads at run time; it has no module of its own
    assert declared - needed - libraries == set(), "declared, but nowhere imported"


def comes_with_numba(module: str) -> bool:
    """llvmlite is numba's, which asks for the one release it works with."""
    asked = [re.split(r"[<>=!~ ;(]", line)[0] for line in metadata.requires("numba") or []]
    return module in asked


def test_the_shipped_digits_are_those_of_their_page() -> None:
    """Two copies of one file: the package's, which installs, and the one beside its licence."""
    page = ROOT / "data" / "digits"
    installed = ROOT / "swcaffe" / "data" / "digits.npz"
    assert (page / "digits.npz").read_bytes() == installed.read_bytes()
    text = (page / "README.md").read_text(encoding="utf-8")
    assert "https://creativecommons.org/licenses/by/4.0/" in text


def test_events_in_the_json_log_are_those_of_the_table(tmp_path: Path) -> None:
    """A run with one display, one test and one snapshot writes the fields that docs/cli.md lists."""
    net = """
    layer { name: "x" type: "DummyData" top: "x" top: "y"
      dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
    layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip"
      inner_product_param { num_output: 2 } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }
    """
    (tmp_path / "net.prototxt").write_text(net)
    solver = tmp_path / "solver.prototxt"
    solver.write_text(
        f'net: "net.prototxt" base_lr: 0.1 lr_policy: "fixed" display: 1 max_iter: 1 test_iter: 1\n'
        f'test_interval: 1 snapshot_prefix: "{tmp_path}/s" solver_mode: CPU\n'
    )
    log = tmp_path / "log.json"
    assert main(["train", "--solver", str(solver), "--log_json", str(log)]) == 0
    table = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\| (.*) \|$", table, re.M))
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert {event["event"] for event in events} == set(rows) == {"train", "test", "snapshot"}
    for event in events:
        listed = set(re.findall(r"`(\w+)`", rows[event["event"]]))
        assert set(event) - {"event", "iteration"} == listed
