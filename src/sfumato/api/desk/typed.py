"""What is typed into a form, as a schema has it; what a schema has, as people type it; and what the desk is about to
do, spelled out as a command and as Python from the same keywords."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.api.desk.heard import SOURCES
from sfumato.core.asked import asked_fields
from sfumato.core.errors import UsageError
from sfumato.release.asked import SanitizeAsked
from sfumato.table import Column, Schema
from sfumato.table.csv_table import PLAIN, Dialect

NUMBERS = ("numeric", "integer", "date")
DOTTED, ISO = re.compile(r"^(\d{1,2})\.(\d{1,2})\.(\d{4})$"), re.compile(r"^(\d{4})-(\d\d)-(\d\d)$")
COMMA = re.compile(r"[-+]?\d+,(\d{1,2}|\d{4,})")
"""A number with a decimal comma: three digits after it might be thousands."""


def dialect_of(sent: Mapping[str, str], of: str) -> Dialect:
    """What the form says of a file; the fields' names end with `of`."""
    words = (word.strip() for word in sent.get(f"missing{of}", "").split(","))
    encoding, decimal = sent.get(f"encoding{of}") or "utf-8", sent.get(f"decimal{of}") or "."
    return Dialect(decimal, encoding, tuple(filter(None, words)), sent.get(f"delimiter{of}", ""))


def changed(column: Column, given: Mapping[str, str]) -> bool:
    """Whether the form says something else than the schema."""
    if column.kind in NUMBERS:
        there = (shown(column.low), shown(column.high)) if column.source == "public" else ("", "")
        return (given["low"], given["high"]) != there
    return given["words"] != in_words(column)


def reason_of(column: Column, given: Mapping[str, str]) -> str:
    """How the owner knows a range, as readers are told."""
    source, why = SOURCES.get(given["known"]), given["why"]
    if source is None and not why:
        raise UsageError("Say where the range of {name} is known from.", name=column.name)
    return ": ".join(part for part in (source, why) if part)


def bound_of(column: Column, typed: str) -> Any:
    if column.kind == "date":
        return typed
    try:
        return float(typed)
    except ValueError:
        raise UsageError("{name} needs numbers as its range.", name=column.name) from None


def iso(typed: str) -> str:
    """A date with points as it is compared; anything else stays what it is."""
    return DOTTED.sub(lambda found: f"{found[3]}-{int(found[2]):02}-{int(found[1]):02}", typed)


def shown(value: Any, dotted: bool = False) -> str:
    """A bound as people write it; a date with points where the table does."""
    text = "" if value is None else f"{value:.15g}" if isinstance(value, float) else str(value)
    return ISO.sub(r"\3.\2.\1", text) if dotted else text


def in_words(column: Column) -> str:
    """Categories in one line, as they can be typed again."""
    line = io.StringIO()
    csv.writer(line).writerow(column.categories or ())
    return line.getvalue().strip()


def as_command(job: str, first: str | None, keywords: Mapping[str, Any], written: Dialect = PLAIN) -> str:
    """One line for a terminal; `written` is how the owner's files are."""
    said = {one.name: says.flag for one, says in asked_fields(SanitizeAsked)}
    parts = ["sfumato", *job.split(), *([] if first is None else [first])]
    for name, value in keywords.items():
        flag = said.get(name, f"--{name.replace('_', '-')}").partition("/")[0]
        parts += [flag] if value is True else [flag, str(value)]
    return shlex.join([*parts, *_options(written)])


def as_python(
    job: str, first: str, keywords: Mapping[str, Any], written: Dialect = PLAIN, person: Sequence[str] = ()
) -> str:
    """One call. `first` and `original` are tables or folders. What is known of a `person` is asked for as it runs, so
    that it stands in no file."""
    shown = {
        name: in_python(value, written) if name in ("original", "holdout") else repr(value)
        for name, value in keywords.items()
    }
    table = repr(first) if "original" in keywords else in_python(first, written)
    given = "".join(f", {name}={value}" for name, value in shown.items())
    asked = f"person = {{name: input(f'{{name}}: ') for name in {list(person)!r}}}\n" if person else ""
    return f"{_imports(written)}\n\n{asked}sf.{job}({table}{', person' if person else ''}{given})"


def _options(written: Dialect) -> list[str]:
    """What a command is told of how files are written."""
    changed = (name for name, value in vars(written).items() if value != getattr(PLAIN, name))
    said = {**vars(written), "missing": ",".join(written.missing)}
    return [part for name in changed for part in (f"--{name}", said[name])]


def in_python(table: str, written: Dialect) -> str:
    """A table in a call: its path, or the table opened as it is written."""
    return repr(table) if written == PLAIN else f"open_table({table!r}, dialect={written!r})"


def _imports(written: Dialect) -> str:
    more = "\nfrom sfumato.table import open_table\nfrom sfumato.table.csv_table import Dialect"
    return "import sfumato as sf" + ("" if written == PLAIN else more)


def declared_as_commands(schema: Schema, table: str, written: Dialect = PLAIN) -> str:
    """How the schema would be written without the desk. Roles other than the label's are written into the file."""
    file = "schema.yaml"
    label = [] if schema.label is None else ["--label", schema.label.name]
    lines = [shlex.join(["sfumato", "schema", table, *label, "--out", file, *_options(written)])]
    for role in ("person", "identifier"):
        if names := [column.name for column in schema.columns if column.role == role]:
            lines.append(f"# In {file}, give the role {role} to: {', '.join(map(repr, names))}")
    for column in schema.columns:
        if column.source == "public" and column.reason:
            ends = [] if column.categories is not None else ["--low", f"{column.low}", "--high", f"{column.high}"]
            words = ["--categories", ",".join(column.categories)] if column.categories is not None else []
            given = ["--column", column.name, *ends, *words, "--reason", column.reason]
            lines.append(shlex.join(["sfumato", "schema", "declare", file, *given]))
    return "\n".join(lines)


def declared_in_python(schema: Schema, table: str, written: Dialect = PLAIN) -> str:
    """The same as calls."""
    said: dict[str, Any] = {
        role: one and one.name for role, one in (("label", schema.label), ("person", schema.person))
    }
    said["identifiers"] = [column.name for column in schema.columns if column.role == "identifier"]
    given = "".join(f", {name}={value!r}" for name, value in said.items() if value)
    lines = [_imports(written), "", f"schema = sf.Schema.infer({in_python(table, written)}{given})"]
    for column in [one for one in schema.columns if one.source == "public"]:
        known = {"low": column.low, "high": column.high, "categories": column.categories, "reason": column.reason}
        given = "".join(f", {name}={value!r}" for name, value in known.items() if value is not None)
        lines.append(f'schema = schema.with_column({column.name!r}, source="public"{given})')
    return "\n".join(lines)
