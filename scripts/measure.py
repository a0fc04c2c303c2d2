"""How large the house is and how far a reader walks in it: a table of counts over src, the same on any machine.

`python scripts/measure.py` prints it, `--json` for programs. Counts of the source are by its syntax trees; files that a
job enters are those of which a function is called while the job runs on a small made-up table. Complexity is McCabe's,
counted here: 1, and 1 for every if, conditional expression, loop, exception handler, assert and case, for every `and`
or `or`, every comprehension and every condition in one; a nested function counts for itself. `docs/decisions/0113`
says what the values were before the restructuring, and what is meant to become of them.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sfumato"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert, ast.match_case)
ENGINES = {"memory", "stream", "spark"}
CARRIES = 0.4
"""A signature, class or call with more than this share of a job's options carries them: each is spelled there."""
Trees = dict[Path, ast.Module]


# The source as it is written


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    names = [one.arg for one in function.args.posonlyargs + function.args.args]
    return names[names[:1] in (["self"], ["cls"]) :] + [one.arg for one in function.args.kwonlyargs]


def complexity(function: ast.AST) -> int:
    count, todo = 1, list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if isinstance(node, FUNCTIONS):
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
    return count


def names_in(node: ast.AST) -> set[str]:
    found = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
    return {each.id if isinstance(each, ast.Name) else each.attr for each in found}


def kinds_of_mechanism(trees: Trees) -> set[str]:
    """Every class below Mechanism, by name."""
    bases: dict[str, set[str]] = defaultdict(set)
    for node in (each for tree in trees.values() for each in ast.walk(tree) if isinstance(each, ast.ClassDef)):
        bases[node.name] |= {name for base in node.bases for name in names_in(base)}
    kinds = {"Mechanism"}
    while more := {name for name, above in bases.items() if above & kinds} - kinds:
        kinds |= more
    return kinds - {"Mechanism"}


def questions(trees: Trees) -> tuple[int, int]:
    """How often the source asks which kind a mechanism is, and what an engine is called."""
    kinds, asked, engines = kinds_of_mechanism(trees), 0, 0
    for node in (each for tree in trees.values() for each in ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 2:
            asked += node.func.id in ("isinstance", "issubclass") and bool(names_in(node.args[1]) & kinds)
        elif isinstance(node, ast.MatchClass):
            asked += bool(names_in(node.cls) & kinds)
        elif isinstance(node, ast.Compare):
            words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
            engines += bool(words & ENGINES) and any("engine" in name for name in names_in(node))
    return asked, engines


def spelled(trees: Trees, options: set[str]) -> Counter[str]:
    """In how many places each option stands: signatures and their docstrings, classes with fields, calls."""
    places: Counter[str] = Counter()
    for node in (each for tree in trees.values() for each in ast.walk(tree)):
        told: set[str] = set()
        if isinstance(node, FUNCTIONS):
            here = set(parameters(node))
            told = set(re.findall(r"^(\w+) : ", ast.get_docstring(node) or "", re.MULTILINE))
        elif isinstance(node, ast.ClassDef):
            fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            here = {each.id for each in fields if isinstance(each, ast.Name)}
        elif isinstance(node, ast.Call):
            here = {each.arg for each in node.keywords if each.arg}
        else:
            continue
        if len(here & options) > CARRIES * len(options):
            places.update(here & options)
            places.update(told & options)
    return places


def importers(trees: Trees) -> dict[str, set[str]]:
    """Of every module of ours, the modules that import it."""
    named = {".".join(("sfumato", *_parts(path))): path for path in trees}
    found: dict[str, set[str]] = {name: set() for name in named}
    for name, path in named.items():
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        for node in ast.walk(trees[path]):
            if isinstance(node, ast.Import):
                origins = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
                origin = ".".join([*above, *([node.module] if node.module else [])])
                origins = [full if (full := f"{origin}.{alias.name}") in named else origin for alias in node.names]
            else:
                continue
            for origin in {*origins} & named.keys() - {name}:
                found[origin].add(name)
    return found


def _parts(path: Path) -> tuple[str, ...]:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def only_for_a_neighbour(trees: Trees) -> int:
    """Modules with one importer, in the same folder: they belong to that importer."""
    lone = ((name, *found) for name, found in importers(trees).items() if len(found) == 1)
    return sum(name.rpartition(".")[0] == by.rpartition(".")[0] for name, by in lone)


def docstrings(trees: Trees) -> Iterator[str]:
    """Of modules, classes and functions, and those below a constant or a field."""
    for node in (each for tree in trees.values() for each in ast.walk(tree)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


# The source as it runs, in processes of their own

TABLE = """
import sys, json, os, tempfile, warnings
warnings.simplefilter("ignore")
folder = tempfile.mkdtemp(); os.environ["SFUMATO_LEDGER"] = os.path.join(folder, "ledger.json")
import sfumato as sf
known = {"source": "public", "reason": "a form"}
age = [15 + (37 * i + 11 * (i // 7)) % 80 for i in range(200)]
people = {"age": age, "weight": [50 + a / 2 + (53 * i) % 25 for i, a in enumerate(age)],
          "ill": ["yes" if (a > 50) != (i % 11 == 0) else "no" for i, a in enumerate(age)]}
schema = sf.Schema((sf.Column("age", "integer", low=10, high=130, **known),
                    sf.Column("weight", "numeric", low=20, high=220, **known),
                    sf.Column("ill", "categorical", role="label", categories=("no", "yes"), **known)))
entered = {}
def profile(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_name != "<module>" and os.sep + "sfumato" + os.sep in code.co_filename:
        entered[code.co_filename, code.co_firstlineno] = None
def watched(job):
    entered.clear(); sys.setprofile(profile)
    try: made = job()
    finally: sys.setprofile(None)
    return made, list(entered)
def ours(): return sum(name.partition(".")[0] == "sfumato" for name in sys.modules)
sf.sanitize
loaded = ours()
release, sanitized = watched(lambda: sf.sanitize(people, schema=schema, mechanism="additive-noise", epsilon_record=8.0))
ran = ours()
_, trained = watched(lambda: sf.train(release, classifier="naive-bayes"))
_, audited = watched(lambda: sf.audit(release, original=people))
print(json.dumps({"loaded": loaded, "ran": ran, "sanitize": sanitized, "train": trained, "audit": audited}))
"""


def run() -> dict[str, Any]:
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", TABLE], env=env, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def longest_entered(trees: Trees, entered: list[tuple[str, int]]) -> str:
    """The longest function that the job enters, by its lines."""
    called = {(Path(file).resolve(), line) for file, line in entered}
    found = []
    for path, tree in trees.items():
        for node in (each for each in ast.walk(tree) if isinstance(each, FUNCTIONS)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if (path.resolve(), first) in called:
                found.append((_lines(node), f"{path.relative_to(SOURCE)}::{node.name}", node))
    lines, name, node = max(found, key=lambda one: one[0])
    return f"{name}: {lines} lines, {len(parameters(node))} parameters, complexity {complexity(node)}"


def _lines(function: ast.AST) -> int:
    """Without its docstring: a long description is no long road."""
    body = function.body
    told = body[0] if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else None
    return function.end_lineno - function.lineno + 1 - (told.end_lineno - told.lineno + 1 if told else 0)


def first_screen(command: str) -> tuple[int, int]:
    """Options that `--help` lists, and all that there are."""
    import click
    import typer

    from sfumato.api.cli.app import app

    found = typer.main.get_command(app).commands[command]
    listed = set(re.findall(r"^\W{0,4}(?:-\w, ?)?(--[a-z][\w-]*)", found.get_help(click.Context(found)), re.MULTILINE))
    every = {one.opts[0] for one in found.params if one.param_type_name == "option"}
    return len(listed - {"--help"}), len(every - {"--help"})


def measured() -> dict[str, Any]:
    """What was counted, by what it is called in the table."""
    import inspect

    sys.path.insert(0, str(SOURCE.parent))
    import sfumato as sf

    text = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    trees = {path: ast.parse(each) for path, each in text.items()}
    functions = [each for tree in trees.values() for each in ast.walk(tree) if isinstance(each, FUNCTIONS)]
    wide = [len(parameters(each)) for each in functions]
    asked, engines = questions(trees)
    jobs = [path for path in text if "jobs" in path.relative_to(SOURCE).parts[:-1]]
    words = Counter(re.findall(r"[a-z]+", "\n".join(docstrings(trees)).lower()))
    ran = run()
    found: dict[str, Any] = {
        "files": len(text),
        "lines": sum(len(each.splitlines()) for each in text.values()),
        "rooms": len({path.relative_to(SOURCE).parts[0] for path in text if path.parent != SOURCE}),
        "files in folders called jobs": len(jobs),
        "lines in folders called jobs": sum(len(text[path].splitlines()) for path in jobs),
    }
    for job in ("sanitize", "audit"):
        options = set(inspect.signature(getattr(sf, job)).parameters)
        places = spelled(trees, options)
        found[f"options of {job} on the first help screen"], found[f"options of {job} in all"] = first_screen(job)
        found[f"parameters of sf.{job}"] = len(options)
        found[f"places in which an option of {job} is spelled, on average"] = round(places.total() / len(options), 1)
        found[f"places in which an option of {job} is spelled, at most"] = max(places.values())
    return {
        **found,
        "longest function that sanitize enters": longest_entered(trees, ran["sanitize"]),
        "isinstance of mechanism kinds": asked,
        "tests of the engine's name": engines,
        "functions over 6 parameters": sum(one > 6 for one in wide),
        "functions over 10 parameters": sum(one > 10 for one in wide),
        "functions of complexity over 15": sum(complexity(each) > 15 for each in functions),
        **{f"files that {job} enters": len({file for file, _ in ran[job]}) for job in ("sanitize", "audit", "train")},
        "modules of ours that naming sf.sanitize loads": ran["loaded"],
        "modules of ours after one sf.sanitize": ran["ran"],
        "modules with one importer, in the same folder": only_for_a_neighbour(trees),
        **{f"'{word}' in docstrings": words[word] for word in ("nobody", "somebody", "shall")},
    }


if __name__ == "__main__":
    values = measured()
    if "--json" in sys.argv[1:]:
        print(json.dumps(values, indent=1))
    else:
        width = max(map(len, values)) + 2
        for name, value in values.items():
            print(f"{name:<{width}}{value:>8,}" if isinstance(value, int) else f"{name:<{width}}{value:>8}")
