"""Write docs/reference/cli.md from the program itself: every command, argument, option and exit code.

A test fails while the page lacks a command or an option, so run `make reference` after a change of the command line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from sfumato.errors import SfumatoError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"


def leaves(command: Any, words: list[str]) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with the words that call it."""
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from leaves(child, [*words, name])
    elif not command.hidden:
        yield " ".join(words), command


def cell(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "").replace("|", "\\|").strip()


def section(name: str, command: Any) -> str:
    """Heading, call, the help text as the program prints it, and one table row for each option."""
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and "--help" not in p.opts]
    call = " ".join([name, *map(written, arguments), "[OPTIONS]"])
    summary, _, more = inspect.cleandoc(command.help or "").replace("\b\n", "").partition("\n\n")
    lines = [f"## {name}", "", f"```text\n{call}\n```", "", summary, ""]
    if more:
        lines += [f"```text\n{more}\n```", ""]
    if options:
        lines += ["| option | what it does | default |", "|---|---|---|"]
        for option in options:
            flags = ", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts])
            default = option.default
            plain = isinstance(default, str | int | float) and not isinstance(default, bool)
            lines.append(f"| {flags} | {cell(option.help)} | {f'`{default}`' if plain else ''} |")
        lines.append("")
    return "\n".join(lines)


def written(argument: Any) -> str:
    """How an argument is written in a call: TABLE, [TABLE], TABLE..."""
    word = (argument.metavar or argument.name).upper() + ("..." if argument.nargs != 1 else "")
    return word if argument.required else f"[{word}]"


def exit_codes() -> str:
    rows = ["| 0 | Done. |", f"| {SfumatoError.exit_code} | Any other error. |"]
    rows += [f"| {e.exit_code} | {cell(e.__doc__)} |" for e in SfumatoError.__subclasses__() if e.exit_code > 1]
    rows += ["| 130 | Interrupted (Ctrl-C); nothing was left behind. |"]
    return "\n".join(["## Exit codes", "", "| code | meaning |", "|---|---|", *rows, ""])


def page(app: typer.Typer) -> str:
    head = "# Command line\n\nWritten by `make reference`; `sfumato COMMAND --help` says the same.\n"
    parts = [section(name, command) for name, command in leaves(typer.main.get_command(app), ["sfumato"])]
    return "\n".join([head, *parts, exit_codes()])


if __name__ == "__main__":
    from sfumato.cli import app

    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(app), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(Path.cwd())}")
