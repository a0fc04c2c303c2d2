"""Write docs/reference/: cli.md from the program itself, python.md from the docstrings of the front door; and
docs/glossary.md from the vocabulary, docs/decisions/README.md from the decisions' headings.

Tests fail while a page is stale, so run `make reference` after a change of the command line, the front door or a word,
and after a decision.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from sfumato.core.errors import SfumatoError

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


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
    rows += [f"| {e.exit_code} | {cell(e.__doc__)} |" for e in SfumatoError.__subclasses__() if 1 < e.exit_code < 130]
    rows += ["| 130 | Interrupted (Ctrl-C); nothing was left behind, unless `--resume` keeps it. |"]
    return "\n".join(["## Exit codes", "", "| code | meaning |", "|---|---|", *rows, ""])


def page(app: typer.Typer) -> str:
    head = "# Command line\n\nWritten by `make reference`; `sfumato COMMAND --help` says the same.\n"
    parts = [section(name, command) for name, command in leaves(typer.main.get_command(app), ["sfumato"])]
    return "\n".join([head, *parts, exit_codes()])


INSIDE = {"public", "open", "made", "has_private_parts", "where", "blocks", "encoding", "check", "Z", "y", "affine"}
"""Of a release: for the library's own use."""


# The front door, from docstrings in the numpydoc manner


def python_page(package: Any) -> str:
    """Every function and class that `import sfumato as sf` gives, functions first."""
    head = (
        "# Python\n\nWritten by `make reference` from docstrings; `help(sf.sanitize)` says the same. Errors are "
        "those of the command line:\n"
        "where one names an option (`--max-rows`), the parameter is called the same (`max_rows`).\n\n"
        "```python\nimport sfumato as sf\n```\n"
    )
    things = [(name, getattr(package, name)) for name in package.__all__ if not name.startswith("_")]
    functions = [function_section(f"sf.{name}", thing) for name, thing in things if inspect.isfunction(thing)]
    classes = [class_section(name, thing) for name, thing in things if inspect.isclass(thing)]
    return "\n".join([head, *functions, *classes])


def function_section(name: str, function: Any, level: str = "##") -> str:
    parameters = list(inspect.signature(function).parameters.values())
    words = [one for one in parameters if one.name not in ("self", "cls")]
    star = any(one.kind is one.KEYWORD_ONLY for one in words)
    plain = [one.name for one in words if one.kind is not one.KEYWORD_ONLY]
    call = ", ".join([*plain, *(["..."] if star else [])])
    return f"{level} {name}({call})\n\n{described(function)}"


def class_section(name: str, thing: type) -> str:
    """A class with the methods of its own that have something to say."""
    if issubclass(thing, Exception):
        return f"## sf.{name}\n\n{described(thing)}"
    shown = [f"## sf.{name}\n\n{described(thing)}"]
    for method, found in vars(thing).items():
        plain = getattr(found, "__func__", found)
        if method.startswith("_") or (name == "Release" and method in INSIDE):
            continue
        if isinstance(found, property):
            shown.append(f"### {name}.{method}\n\n{described(found)}")
        elif inspect.isfunction(plain):
            shown.append(function_section(f"{name}.{method}", plain, "###"))
    return "\n".join(shown)


def described(thing: Any) -> str:
    """A docstring as Markdown: sections become tables or blocks of code."""
    head, *rest = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    parts = [as_blocks(head.strip())]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        if title == "Examples":
            parts.append(f"```python\n{body.strip()}\n```")
        elif title in ("Parameters", "Attributes"):
            parts.append(as_table(title, body))
        else:
            parts.append(f"**{title}**: " + "; ".join(f"`{what}`. {words}".strip() for what, words in entries(body)))
    return "\n\n".join(part for part in parts if part) + "\n"


def as_blocks(text: str) -> str:
    """Prose as it is, examples that stand in it as code."""
    return re.sub(
        r"((?:^(?:>>>|\.\.\.).*\n(?:(?!>>>|$).+\n?)*)+)", r"```python\n\1```\n", text + "\n", flags=re.MULTILINE
    ).strip()


def entries(body: str) -> Iterator[tuple[str, str]]:
    """`name : type` lines with the indented words below each."""
    for entry in re.split(r"\n(?=\S)", body.strip()):
        what, _, words = entry.partition("\n")
        yield what, cell(words)


def as_table(title: str, body: str) -> str:
    rows = [f"| {title.lower().removesuffix('s')} | type and default | what it is |", "|---|---|---|"]
    for what, words in entries(body):
        name, _, kind = what.partition(" : ")
        rows.append(f"| `{name}` | {cell(kind)} | {words} |")
    return "\n".join(rows)


# The glossary


def glossary(wording: Any) -> str:
    head = (
        "# Glossary\n\nWritten by `make reference` from `src/sfumato/core/wording.py`, the words of terminal, pages "
        "and "
        "certificate.\n\n"
    )
    words, own = wording.WORDS, wording.OWN
    parts = {
        "Words of our own": {name: words[name] for name in own if name in words},
        "Words that mean what they say": {name: word for name, word in words.items() if name not in own},
        "For experts": dict(sorted(wording.EXPERTS.items(), key=lambda one: one[0] not in own)),
    }
    return head + "\n\n".join(f"## {title}\n\n{entries_of(these)}" for title, these in parts.items()) + "\n"


def entries_of(words: Mapping[str, Any]) -> str:
    """One line a word, and what law, papers or files call it."""
    called = {name: f" (elsewhere: {word.known_as})" if word.known_as else "" for name, word in words.items()}
    return "\n".join(f"- **{name[0].upper()}{name[1:]}**{called[name]}: {word.means}" for name, word in words.items())


# The decisions


def decisions(folder: Path) -> str:
    """Every record in its order, by the heading of its own file."""
    head = (
        "# Decisions\n\nShort records of choices that were not obvious: what was decided, why, what it costs. A record "
        "is not edited when the\nchoice changes; a new one replaces it and both say so. `make reference` writes this "
        "list from their headings.\n\n| number | decision |\n|---|---|\n"
    )
    return head + "".join(
        "| [{0}]({2}) | {1} |\n".format(*heading(file), file.name) for file in sorted(folder.glob("[0-9]*.md"))
    )


def heading(file: Path) -> tuple[str, str]:
    """The number and the sentence of a record's first line."""
    first = file.read_text(encoding="utf-8").partition("\n")[0]
    found = re.fullmatch(r"# (\d{4}): (.+)", first)
    if found is None or not file.name.startswith(found[1]):
        raise SystemExit(f"{file.name} must begin with its number and one sentence: # {file.name[:4]}: ...")
    return found[1], found[2]


def pages() -> dict[Path, str]:
    """Every page that is written here."""
    import sfumato
    from sfumato.api.cli import app
    from sfumato.core import wording

    return {
        FOLDER / "cli.md": page(app),
        FOLDER / "python.md": python_page(sfumato),
        FOLDER.parent / "glossary.md": glossary(wording),
        FOLDER.parent / "decisions" / "README.md": decisions(FOLDER.parent / "decisions"),
    }


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(FOLDER.parent.parent)}")
