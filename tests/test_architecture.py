"""The direction of travel: a room imports only from the rooms before it, and no two modules import each other."""

from __future__ import annotations

import ast
import graphlib
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src"

# fmt: off
ROOMS = [
    "core", "table", "noise", "channels", "guarantee", "ledger", "mechanisms", "reconstruction", "attacks", "release",
    "learn", "auditing", "advising", "study", "api", "__main__", "classifiers",
]
# fmt: on
APART = {
    ("study.server", "study.client"),
    ("study.client", "study.server"),
}  # both speak the protocol, neither knows the other
OUTSIDE = {"papers", "benchmarks", "tests"}  # they use the library, never the other way round
SAYS_NOTHING = {"utils", "util", "helpers", "helper", "common", "misc"}
LONGEST = 500


def modules(source: Path) -> dict[str, Path]:
    """Dotted name -> file, of every module of the package."""
    found = {}
    for path in sorted((source / "sfumato").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Every dotted name that a module imports, at the top or inside a function, submodules told from attributes."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                found.add(full if full in known or origin == "sfumato" else origin)
    return found - {name}


def room(name: str) -> str:
    """The room of a dotted name of ours; the package itself has none."""
    return [*name.split("."), ""][1]


def violations(source: Path) -> list[str]:
    """One line for everything that breaks the map of the rooms."""
    known = modules(source)
    graph = {name: imports(name, path, known) for name, path in known.items()}
    wrong = []
    for name, path in known.items():
        here = room(name)
        if SAYS_NOTHING & set(name.split(".")):
            wrong.append(f"{name}: name it after what it does")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST:
            wrong.append(f"{name}: {lines} lines, at most {LONGEST}")
        if here and here not in ROOMS:
            wrong.append(f"{name}: {here} has no place in the order of rooms")
            continue
        for target in sorted(graph[name]):
            if target.split(".")[0] in OUTSIDE:
                wrong.append(f"{name} imports {target}, which only uses the library")
            elif target.split(".")[0] == "sfumato":
                wrong += wrong_direction(name, target)
    try:
        graphlib.TopologicalSorter({name: graph[name] & known.keys() for name in known}).prepare()
    except graphlib.CycleError as cycle:
        wrong.append("cycle: " + " <- ".join(cycle.args[1]))
    return wrong


def wrong_direction(name: str, target: str) -> list[str]:
    """The package itself may show whatever it likes to users, and gives its own rooms nothing but its version."""
    here, there = room(name), room(target)
    if (".".join(name.split(".")[1:3]), ".".join(target.split(".")[1:3])) in APART:
        return [f"{name} imports {target}"]
    if not here or here == there or there == "__version__":
        return []
    if there not in ROOMS:
        return [f"{name} imports {target}, which is in no room"]
    if ROOMS.index(there) > ROOMS.index(here):
        return [f"{name} imports {target}"]
    return []


def test_imports_follow_the_order_of_rooms():
    assert violations(SOURCE) == []


def test_names_for_arrays_are_defined_once():
    again = re.compile(
        r"^\w+(?:: TypeAlias)? = (?:npt\.)?NDArray\[np\.(?:float64|int64|bool_|uint8|bytes_)\]", re.MULTILINE
    )
    found = [name for name, path in modules(SOURCE).items() if again.search(path.read_text(encoding="utf-8"))]
    assert found == ["sfumato.core.array_types"], "import the name from there"


PLANTED = {
    "upward": ({"noise/__init__.py": "from sfumato.mechanisms import base"}, "sfumato.noise imports"),
    "inside a function": (
        {"noise/laws.py": "def f():\n    import sfumato.auditing.audit"},
        "imports sfumato.auditing.audit",
    ),
    "relative": ({"noise/laws.py": "from ..mechanisms import base"}, "sfumato.noise.laws imports sfumato.mechanisms"),
    "by the package": ({"table/a.py": "from sfumato import noise"}, "sfumato.table.a imports sfumato.noise"),
    "through the package": ({"table/a.py": "from sfumato import sanitize"}, "in no room"),
    "client from server": (
        {"study/client/a.py": "import sfumato.study.server"},
        "sfumato.study.client.a imports sfumato.study.server",
    ),
    "server from client": (
        {"study/server/a.py": "from sfumato.study.client import push"},
        "sfumato.study.server.a imports",
    ),
    "papers": ({"release/a.py": "from papers import run"}, "which only uses the library"),
    "benchmarks": ({"release/a.py": "import benchmarks.speed"}, "which only uses the library"),
    "a drawer for odds and ends": ({"release/utils.py": ""}, "name it after what it does"),
    "an unknown room": ({"attic/a.py": ""}, "has no place"),
    "a long file": ({"release/a.py": "\n" * (LONGEST + 1)}, f"at most {LONGEST}"),
    "a cycle in a room": (
        {"release/a.py": "from sfumato.release.b import x", "release/b.py": "from . import a"},
        "cycle:",
    ),
}


@pytest.mark.parametrize(("files", "complaint"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_found(files, complaint, tmp_path):
    plant(tmp_path, files)
    assert any(complaint in line for line in violations(tmp_path))


def test_a_clean_tree_is_accepted(tmp_path):
    plant(
        tmp_path,
        {
            "__init__.py": "__version__ = '1'\nfrom sfumato.release import sanitize",
            "table/__init__.py": "from sfumato.table.schema import Schema",
            "table/schema.py": "import numpy\nfrom ..core.errors import SchemaError",
            "core/errors.py": "class SchemaError(Exception): ...",
            "release/__init__.py": "from sfumato import __version__\nfrom sfumato.table import Schema",
            "study/server/a.py": "from sfumato.release import sanitize",
            "api/cli.py": "from sfumato.study import server\nfrom sfumato.study.client import push",
        },
    )
    assert violations(tmp_path) == []


def plant(source: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = source / "sfumato" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
