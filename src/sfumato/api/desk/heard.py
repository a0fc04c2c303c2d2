"""What the functions say, in the reader's language: by the template of a sentence and the values that it was made of.

English readers get the sentence. German ones get that of `german.json`, with the same values in it; what is not in it,
such as a rare error, is quoted as it is and marked as English, so that a screen reader pronounces it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from sfumato.api.desk.words import ENGLISH, GERMAN, figure, say
from sfumato.core.asked import asked_fields
from sfumato.core.errors import UsageError
from sfumato.core.wording import Said, said, to_type
from sfumato.release.asked import SanitizeAsked
from sfumato.table import Column, Schema
from sfumato.table.csv_table import PLAIN, Dialect

OPTION = re.compile(r"(?<!\S)--(?=[a-z])")
PLACE = re.compile(r"\{(\w+)[^}]*\}")
NAMES = ("name", "names", "where", "path", "learner")
"""Values that are no figures, whatever they look like."""
SOURCES = {"form": "a form", "instrument": "what the instrument can measure", "law": "a law", "codebook": "a code book"}
"""Where a range may be known from, with the words that readers of the card are told; or the owner's own words."""
_SAID, _VALUES = "__said__", "values"


@cache
def german() -> Mapping[str, str]:
    """German sentences by English ones."""
    found: dict[str, str] = json.loads(files("sfumato.api.desk").joinpath("german.json").read_text(encoding="utf-8"))
    return found


def heard(told: str, language: str, plainly: Callable[[str], str] = str) -> Markup:
    """A sentence for a page. `plainly`: names and paths as the owner knows them."""
    if language == ENGLISH:
        return escape(without_options(plainly(told)))
    whole = said(told)
    if whole.template in german() or not _has_words(whole):
        return _in_german(whole, plainly)
    return say("in_english", language, told=_quoted(whole, plainly))


def _in_german(told: Said, plainly: Callable[[str], str]) -> Markup:
    """With a part in quotes where it is known in English alone."""
    if told.template not in german() and _has_words(told):
        return _quoted(told, plainly)
    template = PLACE.sub(r"{\1}", german().get(told.template, told.template))
    values: dict[str, Any] = {}
    for name, one in told.values.items():
        if isinstance(one, Said):
            values[name] = _in_german(one, plainly)
        elif name == "reason":
            known, why = source_of(one.strip('"'))  # in the words of the form, where one of its sources was chosen
            told_so = ": ".join(filter(None, (say(f"known_{known}", GERMAN), why)))
            values[name] = one if known == "other" else f"„{told_so}“"
        else:
            values[name] = plainly(str(one)) if name in NAMES else figure(one, GERMAN)
    return Markup(template).format(**values) if values else escape(template)


def source_of(reason: str) -> tuple[str, str]:
    """The source that a reason names, and what else it says; "other" where it is in the owner's own words."""
    for key, words in SOURCES.items():
        if reason == words or reason.startswith(f"{words}: "):
            return key, reason.removeprefix(words).removeprefix(": ")
    return "other", reason


def _quoted(told: str, plainly: Callable[[str], str]) -> Markup:
    return Markup('<span lang="en">{}</span>').format(without_options(plainly(told)))


def _has_words(told: Said) -> bool:
    return re.search(r"[^\W\d_]", PLACE.sub("", told.template)) is not None


def sentence_of(error: Exception) -> str:
    """What an error says, with the template if it has one."""
    return error.args[0] if error.args and isinstance(error.args[0], Said) else str(error)


def packed(told: Any) -> Any:
    """For JSON, from which `unpacked` makes the same sentences again."""
    if isinstance(told, Said):
        return {_SAID: told.template, _VALUES: packed(dict(told.values))}
    if isinstance(told, Mapping):
        return {name: packed(one) for name, one in told.items()}
    if isinstance(told, list | tuple):
        return [packed(one) for one in told]
    return str(told) if isinstance(told, Path) else told


def unpacked(found: dict[str, Any]) -> Any:
    """The `object_hook` of `json.loads`."""
    return said(found[_SAID], **found[_VALUES]) if _SAID in found else found


def without_options(told: str) -> str:
    """What the engine says, without its sentences on what to type: a page has fields and buttons for that.

    >>> without_options("It needs people not in the table (--holdout).")
    'It needs people not in the table.'

    >>> without_options("It is not UTF-8 text. Name its encoding, for example --encoding cp1252.")
    'It is not UTF-8 text.'
    """
    for typed in (r" \(--[a-z-]+\)", ": give a holdout table", ": see `sfumato show`"):
        told = re.sub(typed, "", told)
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", told)
    return " ".join(one for one in sentences if not OPTION.search(one)) or OPTION.sub("", told)


# What is typed into a form, as a schema has it; what a schema has, as people type it; and what the desk is about to do,
# spelled out as a command and as Python from the same keywords.

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
    flags = {one.name: says.flag for one, says in asked_fields(SanitizeAsked)}
    said = {flags.get(name, name).partition("/")[0].removeprefix("--"): value for name, value in keywords.items()}
    return to_type(job, *([] if first is None else [first]), **said, **_options(written))


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


def _options(written: Dialect) -> dict[str, str]:
    """What a command is told of how files are written."""
    said = {**vars(written), "missing": ",".join(written.missing)}
    return {name: said[name] for name, value in vars(written).items() if value != getattr(PLAIN, name)}


def in_python(table: str, written: Dialect) -> str:
    """A table in a call: its path, or the table opened as it is written."""
    return repr(table) if written == PLAIN else f"open_table({table!r}, dialect={written!r})"


def _imports(written: Dialect) -> str:
    more = "\nfrom sfumato.table import open_table\nfrom sfumato.table.csv_table import Dialect"
    return "import sfumato as sf" + ("" if written == PLAIN else more)


def declared_as_commands(schema: Schema, table: str, written: Dialect = PLAIN) -> str:
    """How the schema would be written without the desk. Roles other than the label's are written into the file."""
    file = "schema.yaml"
    label = None if schema.label is None else schema.label.name
    lines = [to_type("schema", table, label=label, out=file, **_options(written))]
    for role in ("person", "identifier"):
        if names := [column.name for column in schema.columns if column.role == role]:
            lines.append(f"# In {file}, give the role {role} to: {', '.join(map(repr, names))}")
    for column in schema.columns:
        if column.source == "public" and column.reason:
            known: dict[str, Any] = {"low": column.low, "high": column.high}
            if column.categories is not None:
                known = {"categories": ",".join(column.categories)}
            lines.append(to_type("schema declare", file, column=column.name, **known, reason=column.reason))
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
