"""The tutorial, run from top to bottom as a newcomer would, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parent.parent.parent / "docs" / "tutorial.md"
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# (\S+\.\w+)\n")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, its line in the file."""

    language: str
    text: str
    line: int

    @property
    def file(self) -> str:
        """The file the block is to be saved as, named in its first line; "" if none is."""
        found = NAME.match(self.text)
        return found[1] if found else ""


def blocks() -> Iterator[Block]:
    text = TUTORIAL.read_text(encoding="utf-8")
    for found in FENCED.finditer(text):
        yield Block(found[1], found[2], text[: found.start()].count("\n") + 1)


def end_of(text: str) -> str:
    return "\n".join(text.splitlines()[-40:])


def run(block: Block, folder: Path) -> str:
    """Run a shell block; what it printed. Commands are found beside this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    failed = f"{TUTORIAL}:{block.line}: exit {done.returncode}\n{end_of(done.stdout)}"
    assert done.returncode == 0, failed
    return done.stdout


def masked(text: str) -> list[str]:
    """Lines without their log prefix, blanks as one, every number replaced by `#`.

    Values depend on the CPU's vector unit; what is printed about them does not.
    """
    lines = [re.sub(r"^[IWE]\d{4} .*?\] ", "", line).split() for line in text.splitlines()]
    return [re.sub(r"\d+(\.\d+)?(e[-+]\d+)?", "#", " ".join(line)) for line in lines if line]


def missing(shown: str, printed: str) -> list[str]:
    """Lines shown that were not printed, in this order."""
    rest = iter(masked(printed))
    return [line for line in masked(shown) if not any(line == other for other in rest)]


def values(log: Path, pattern: str) -> list[float]:
    return [float(value) for value in re.findall(pattern, log.read_text())]


def accuracies(log: Path) -> list[float]:
    return values(log, r"\baccuracy = ([\d.]+)")


def losses(log: Path) -> list[float]:
    return values(log, r"Iteration \d+ .*, loss = ([-+.\de]+)")


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom(tmp_path: Path) -> None:
    printed = ""
    for block in blocks():
        if block.language in ("python", "prototxt"):
            assert block.file, f"{TUTORIAL}:{block.line}: names no file to save it as"
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "bash":
            printed = run(block, tmp_path)
        else:
            wrong = missing(block.text, printed)
            assert not wrong, (
                f"{TUTORIAL}:{block.line}: not printed: {wrong}, but\n{end_of(printed)}"
            )
    assert accuracies(tmp_path / "train.log")[-1] > 0.93
    assert accuracies(tmp_path / "test.log")[-1] > 0.93
    assert accuracies(tmp_path / "odd.log")[-1] > 0.93
    sunway, host = losses(tmp_path / "sunway.log"), losses(tmp_path / "train.log")
    assert sunway == pytest.approx(host[: len(sunway)], abs=1e-3)
    assert len(sunway) == 2
    first = r"Batch 0, loss = ([-+.\de]+)"
    mesh, test = values(tmp_path / "mesh.log", first), values(tmp_path / "test.log", first)
    assert mesh == pytest.approx(test, rel=1e-4)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_every_script_is_run_and_every_block_has_a_known_language() -> None:
    found = list(blocks())
    assert {block.language for block in found} <= {"bash", "prototxt", "python", "text"}
    shell = "".join(block.text for block in found if block.language == "bash")
    scripts = [block.file for block in found if block.language == "python"]
    assert scripts
    assert [name for name in scripts if f"python {name}" not in shell] == []


@pytest.mark.parametrize(
    ("shown", "printed", "wrong"),
    [
        ("loss = 0.1", "I1201 09:00:00.000001  42 solver.cpp:1] loss = 2e-05\n", []),
        ("b\na", "a\nb\n", ["a"]),
        ("accuracy = 0.9", "loss = 0.9", ["accuracy = #"]),
    ],
)
def test_shown_lines_are_compared_in_order_without_their_numbers(
    shown: str, printed: str, wrong: list[str]
) -> None:
    assert missing(shown, printed) == wrong
