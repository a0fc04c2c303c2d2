"""What is typed into a form, as a schema has it; and what a schema has, as people type it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from sfumato.api.desk.heard import SOURCES
from sfumato.core.errors import UsageError
from sfumato.table import Column
from sfumato.table.csv_table import Dialect

NUMBERS = ("numeric", "integer", "date")
DOTTED, ISO = re.compile(r"^(\d{1,2})\.(\d{1,2})\.(\d{4})$"), re.compile(r"^(\d{4})-(\d\d)-(\d\d)$")
COMMA = re.compile(r"[-+]?\d+,(\d{1,2}|\d{4,})")
"""A number with a decimal comma: three digits after it might be thousands."""


def dialect_of(sent: Mapping[str, str], of: str) -> Dialect:
    """What the form says of a file; the fields' names end with `of`."""
    words = (word.strip() for word in sent.get(f"missing{of}", "").split(","))
    encoding, decimal = sent.get(f"encoding{of}") or "utf-8", sent.get(f"decimal{of}") or "."
    return Dialect(decimal, encoding, tuple(filter(None, words)), sent.get(f"delimiter{of}", ""))


def as_number(value: str, kind: str, written: Dialect) -> str:
    """A number with a point, where the table has a comma."""
    has_comma = kind in ("numeric", "integer") and (written.decimal == "," or COMMA.fullmatch(value))
    return value.replace(",", ".") if has_comma else value


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
