"""The house rules that a program can check: floors, rooms for libraries, `__all__`, file length."""

from __future__ import annotations

import ast
import configparser
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "swcaffe"
MOST_LINES = 400

CONFIG = configparser.ConfigParser(comment_prefixes="#", delimiters="=")
CONFIG.read(ROOT / "setup.cfg")
RULES = CONFIG["swcaffe:floors"]
FLOORS = {name: int(floor) for floor in RULES if floor.isdigit() for name in RULES[floor].split()}
EXCEPTIONS = {tuple(pair.split(":")) for pair in RULES["exceptions"].split()}
ROOMS = {
    name.strip(): rooms.split()
    for name, rooms in (line.split(":") for line in RULES["third_party"].strip().splitlines())
}
FRONT = {"swcaffe", "swcaffe.__main__"}
"""The package's front door may name everything: it only loads on demand."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, wherever in the file; `if TYPE_CHECKING` included."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield str(node.module), node.lineno


def package_of(module: str) -> str:
    """The package on a floor that a module belongs to; "" for the base."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else ""


def in_room(module: str, rooms: list[str]) -> bool:
    return any(
        module.endswith(room[1:]) if room.startswith("*") else f"{module}.".startswith(f"{room}.")
        for room in rooms
    )


def complaint(module: str, imported: str) -> str:
    """Why `module` may not import `imported`, or ""."""
    top = imported.split(".")[0]
    if top in ROOMS and not in_room(module, ROOMS[top]):
        return f"{top} may only be imported in {', '.join(ROOMS[top])}"
    if top != "swcaffe" or module in FRONT:
        return ""
    here, there = package_of(module), package_of(imported)
    if not there or here == there or (here, there) in EXCEPTIONS:
        return ""
    if not here:
        return "the base imports nothing of ours"
    if FLOORS[there] >= FLOORS[here]:
        return f"{here} is on floor {FLOORS[here]}, {there} on floor {FLOORS[there]}"
    return ""


def test_every_package_has_a_floor() -> None:
    packages = {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
    assert packages <= set(FLOORS)


@pytest.mark.parametrize(
    ("module", "path"), list(modules()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_imports_respect_the_floors(module: str, path: Path) -> None:
    wrong = [
        f"{path.name}:{line}: {module} imports {imported}: {why}"
        for imported, line in imports(path)
        if (why := complaint(module, imported))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "imported", "allowed"),
    [
        ("swcaffe.net.net", "swcaffe.engine.engine", True),
        ("swcaffe.engine.engine", "swcaffe.net.net", False),
        ("swcaffe.cost.model", "swcaffe.execute.tile", False),
        ("swcaffe.data.lmdb", "swcaffe.proto.messages", True),
        ("swcaffe.proto.messages", "swcaffe.data.source", False),
        ("swcaffe.errors", "swcaffe.net.net", False),
        ("swcaffe.net.net", "numba", False),
        ("swcaffe.engine.host.gemm", "numba", True),
        ("swcaffe.data.kernels", "numba", True),
        ("swcaffe.solver.solver", "google.protobuf", False),
    ],
)
def test_the_rule_itself_can_fail(module: str, imported: str, allowed: bool) -> None:
    assert (complaint(module, imported) == "") is allowed


def test_no_import_cycles() -> None:
    graph = {module: {name for name, _ in top_level_imports(path)} for module, path in modules()}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join([*trail[trail.index(module) :], module])
        if module in done or module not in graph:
            return
        for name in sorted(graph[module]):
            visit(name, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def top_level_imports(path: Path) -> Iterator[tuple[str, int]]:
    """Imports that run when the module is loaded."""
    for node in tree(path).body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module), node.lineno


def listed_names(module: ast.Module) -> set[str] | None:
    for node in module.body:
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == "__all__":
            value = node.value
            assert isinstance(value, ast.List)
            return {e.value for e in value.elts if isinstance(e, ast.Constant)}
    return None


@pytest.mark.parametrize(
    ("module", "path"), list(modules()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_all_lists_what_others_import(module: str, path: Path) -> None:
    """A name that another module imports is in its home's `__all__`."""
    listed = listed_names(tree(path))
    if listed is None:
        assert path.name == "__init__.py", f"{path} has no __all__"
        return
    used = {
        alias.name
        for other, other_path in modules()
        if other != module
        for node in ast.walk(tree(other_path))
        if isinstance(node, ast.ImportFrom) and node.module == module
        for alias in node.names
    }
    modules_here = {
        name.rpartition(".")[2] for name, _ in modules() if name.startswith(f"{module}.")
    }
    dynamic = module == "swcaffe.proto.messages"  # its names come from the schema
    assert dynamic or used - listed - modules_here <= set(), f"{module}: not in __all__"


def test_files_are_short_or_say_why() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {count} lines"
        for _, path in modules()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
        and "Longer than" not in path.read_text(encoding="utf-8")[:1500]
    ]
    assert not long, "\n".join(long)


def test_importing_swcaffe_loads_no_heavy_library() -> None:
    heavy = {"numba", "lmdb", "h5py", "mpi4py", "PIL", "numpy"}
    code = f"import sys, swcaffe; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
