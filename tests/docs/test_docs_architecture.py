"""docs/architecture.md tells the house as built: its tree, its floors, the files it speaks of."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?<![\w/.<-])((?:[\w.]+/)+[\w.]+\.(?:py|proto|md|cfg|sh))\b")
PYTHON = ("__init__.py", "__main__.py")


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]


def entries(tree: str) -> Iterator[str]:
    """Paths in a tree of lines `names  description`, two blanks of indentation a level.

    Folders end in a slash; the lines below belong to the last folder of the line above them.
    """
    folders: list[str] = []
    for line in tree.splitlines():
        if not line.strip():
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        assert depth <= len(folders), f"{line!r} is indented too far"
        folders = folders[:depth]
        names = line.strip().split("  ")[0].split(" ")
        parent = "".join(folders)
        yield from (parent + name for name in names)
        if names[-1].endswith("/"):
            folders.append(names[-1])


def tree() -> list[str]:
    found = [text for language, text in FENCED.findall(TEXT) if language == "tree"]
    assert len(found) == 1
    return list(entries(found[0]))


def configured_floors() -> dict[str, set[str]]:
    config = configparser.ConfigParser(comment_prefixes="#", delimiters="=")
    config.read(ROOT / "setup.cfg")
    rules = config["swcaffe:floors"]
    return {floor: set(rules[floor].split()) for floor in rules if floor.isdigit()}


def drawn_floors() -> dict[str, set[str]]:
    rows = re.findall(r"^\| (\w+) \| (`.*?`) \|", section("Floors"), re.MULTILINE)
    return {floor: set(re.findall(r"`([\w.]+)`", names)) for floor, names in rows}


def test_everything_in_the_tree_exists_as_file_or_folder() -> None:
    wrong = [
        name
        for name in tree()
        if not ((ROOT / name).is_dir() if name.endswith("/") else (ROOT / name).is_file())
    ]
    assert wrong == []


def test_every_module_is_in_the_tree_once() -> None:
    """Packages too: each lists its `__init__.py`."""
    listed = [name for name in tree() if name.endswith(".py") and name.startswith("swcaffe/")]
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "swcaffe").rglob("*.py")}
    assert sorted(there - set(listed)) == []
    assert sorted(listed) == sorted(set(listed))


def test_the_floor_table_is_that_of_setup_cfg() -> None:
    drawn = drawn_floors()
    base = drawn.pop("base")
    assert drawn == configured_floors()
    modules = {path.name for path in (ROOT / "swcaffe").glob("*.py")}
    assert base == modules - set(PYTHON)


def test_floors_without_a_package_are_named_as_to_come_and_no_others() -> None:
    named = set(re.findall(r"`(\w+)`", section("To come")))
    packages = set().union(*configured_floors().values())
    built = {path.parent.name for path in (ROOT / "swcaffe").glob("*/__init__.py")}
    assert named == packages - built


def test_every_file_spoken_of_exists() -> None:
    prose = FENCED.sub(lambda found: "" if found[1] == "tree" else found[2], TEXT)
    spoken = set(FILE.findall(prose))
    assert spoken
    wrong = [
        name
        for name in sorted(spoken)
        if not (ROOT / name).is_file() and not (ROOT / "swcaffe" / name).is_file()
    ]
    assert wrong == []


def test_every_abstraction_is_defined_where_the_table_says() -> None:
    rows = re.findall(r"^\| ([\w, ]+) \| `([\w/.]+)` \|", section("Central abstractions"), re.M)
    assert len(rows) > 10
    for names, file in rows:
        package = (ROOT / "swcaffe" / file).parent
        source = "\n".join(path.read_text(encoding="utf-8") for path in package.glob("*.py"))
        here = (ROOT / "swcaffe" / file).read_text(encoding="utf-8")
        first, *others = names.split(", ")
        assert any(f"class {name}" in here for name in (first, *others)), (names, file)
        missing = [name for name in (first, *others) if f"class {name}" not in source]
        assert missing == [], file


@pytest.mark.parametrize(
    ("drawn", "paths"),
    [
        ("a/  what\n  b.py c.py  why\n  d/\n    e.py\nf", "a/ a/b.py a/c.py a/d/ a/d/e.py f"),
        ("x/ y/\n  z.py", "x/ y/ y/z.py"),
    ],
)
def test_the_tree_is_read_as_drawn(drawn: str, paths: str) -> None:
    assert list(entries(drawn)) == paths.split()
