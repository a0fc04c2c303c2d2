"""What users call, as text: signatures of `import sfumato as sf` and every command's `--help`, in tests/snapshots.

A restructuring moves modules and must not move these. `python scripts/snapshots.py` shows what changed; `--write` takes
the change, which is then read in the diff of the commit.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "snapshots"
WIDTH = 100


def signatures() -> str:
    """Names, order, kinds and defaults of parameters; annotations may change. One line for each that can be called."""
    import sfumato as sf
    from sfumato.attacks import ATTACKS
    from sfumato.core.registry import METRICS
    from sfumato.learn.classifiers import CLASSIFIERS
    from sfumato.mechanisms import MECHANISMS

    lines = []
    for name in sf.__all__:
        thing = getattr(sf, name)
        lines += _of_class(f"sf.{name}", thing) if inspect.isclass(thing) else [f"sf.{name}{_parameters(thing)}"]
    for kind, registry in {"mechanism": MECHANISMS, "attack": ATTACKS, "classifier": CLASSIFIERS}.items():
        lines += [f"{kind} {name}{_parameters(registry[name])}" for name in sorted(registry)]
    lines += [f"error {error.__name__}, exit code {error.exit_code}" for error in _errors(sf.SfumatoError)]
    lines += [f"metric {name}{_parameters(METRICS[name])}" for name in sorted(METRICS)]
    return "\n".join(lines) + "\n"


def _of_class(name: str, thing: type) -> Iterator[str]:
    if issubclass(thing, Exception):
        yield f"{name}, exit code {thing.exit_code}" if hasattr(thing, "exit_code") else name
        return
    yield f"{name}{_parameters(thing)}"
    for method, found in inspect.getmembers_static(thing):
        if not method.startswith("_") and (callable(getattr(found, "__func__", found)) or hasattr(found, "__get__")):
            yield f"{name}.{method}{_parameters(getattr(thing, method))}"


def _errors(error: type) -> list[type]:
    below = (each for child in error.__subclasses__() for each in (child, *_errors(child)))
    return sorted({one for one in below if one.__module__ == error.__module__}, key=lambda one: one.__name__)


def _parameters(thing: Any) -> str:
    if not callable(thing):
        return ""
    stated = inspect.signature(thing)
    bare = [one.replace(annotation=one.empty, default=_plain(one.default)) for one in stated.parameters.values()]
    return str(stated.replace(parameters=bare, return_annotation=stated.empty))


class _Word:
    """A default that is no plain value, by its name: addresses in memory differ between runs."""

    def __init__(self, value: Any) -> None:
        self.word = getattr(value, "__name__", type(value).__name__)

    def __repr__(self) -> str:
        return f"<{self.word}>"


def _plain(default: Any) -> Any:
    return _Word(default) if " at 0x" in repr(default) else default


def help_pages() -> str:
    """Every command's help, hidden ones too, as it is printed 100 columns wide."""
    import click
    import typer

    from sfumato.api.cli.app import app

    def pages(command: Any, name: str, above: click.Context | None) -> Iterator[str]:
        context = click.Context(command, info_name=name, parent=above, terminal_width=WIDTH, max_content_width=WIDTH)
        text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        yield f"{'=' * WIDTH}\n{text}\n"
        for child, found in sorted(getattr(command, "commands", {}).items()):
            yield from pages(found, child, context)

    return "\n".join(pages(typer.main.get_command(app), "sfumato", None))


def snapshots() -> dict[Path, str]:
    return {FOLDER / "signatures.txt": signatures(), FOLDER / "help.txt": help_pages()}


def changes(path: Path, now: str) -> list[str]:
    """Lines of a diff; none where nothing changed."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    return list(
        difflib.unified_diff(before.splitlines(), now.splitlines(), f"{path.name} before", "now", n=1, lineterm="")
    )


if __name__ == "__main__":
    found = False
    for path, text in snapshots().items():
        if "--write" in sys.argv[1:]:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif lines := changes(path, text):
            found = True
            print("\n".join(lines))
    sys.exit(found)
