"""Cells that name several values: "30-39", "[30,40)", "902**", "{A, B}", "*", or a word of a hierarchy.

A set of a number is an interval in raw units, a set of a category a tuple of flags, one for each category.
"""

from __future__ import annotations

import csv
import datetime
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sfumato.errors import TableError
from sfumato.table.column import EPOCH, Column

Hierarchy = Mapping[str, frozenset[str]]
"""Every word of a hierarchy's upper levels, and the values below it."""
Interval = tuple[float, float]
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
ANYTHING = ("*", "any", "all")
FROM_TO = re.compile(rf"\s*({NUMBER})\s*(?:-|–|to|\.\.|:)\s*({NUMBER})\s*", re.IGNORECASE)
BRACKETS = re.compile(rf"\s*([\[(])\s*({NUMBER}|-?inf|)\s*[,;]\s*({NUMBER}|\+?inf|)\s*([\])])\s*", re.IGNORECASE)
ONE_SIDED = re.compile(rf"\s*(<=|>=|<|>|≤|≥)\s*({NUMBER})\s*")
AND_MORE = re.compile(rf"\s*({NUMBER})\s*\+\s*")
LISTED = re.compile(r"\s*\{(.*)\}\s*|\s*\[(.*)\]\s*")
DATE = r"\d{4}-\d{2}-\d{2}"
DATES = re.compile(rf"\s*[\[(]?\s*({DATE})\s*(?:/|,|;|to| - |–)\s*({DATE})\s*[\])]?\s*", re.IGNORECASE)
DATE_PREFIX = re.compile(r"\s*(\d{4})(?:-(\d{2}))?(?:-?[*x]{1,2})*\s*", re.IGNORECASE)


def read_hierarchy(path: Path | str) -> Hierarchy:
    """A hierarchy as ARX writes it: one line for each value, from the value to ever wider words, by semicolons.

    A comma or a tab does too. Lines of unequal length have holes, which are refused with their number.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path} cannot be read as a hierarchy in UTF-8: {type(error).__name__}.") from None
    sign = next((sign for sign in ";\t," if sign in text), ";")
    lines = [[cell.strip() for cell in line] for line in csv.reader(text.splitlines(), delimiter=sign) if line]
    if not lines:
        raise TableError(f"{path} has no line: a hierarchy has one for each value.")
    below: dict[str, set[str]] = {}
    for number, line in enumerate(lines, 1):
        if len(line) != len(lines[0]) or not all(line):
            raise TableError(
                f"{path}: line {number} has a hole. Every line of a hierarchy needs {len(lines[0])} filled levels."
            )
        for word in line[1:]:
            below.setdefault(word, set()).add(line[0])
    return {word: frozenset(values) for word, values in below.items()}


def interval_of(word: str, column: Column, hierarchy: Hierarchy | None = None) -> Interval | None:
    """The values of a number, date or ordinal column that a cell allows; None where it names no set.

    Of whole numbers "[30,40)" is 30 to 39. What is open ends at the column's bounds.
    """
    low, high = column.bounds
    if hierarchy is not None and word in hierarchy:
        found = [_value(value, column) for value in hierarchy[word]]
        known = [value for value in found if value is not None]
        return (min(known), max(known)) if known else None
    if word.strip().lower() in ANYTHING:
        return low, high
    if column.kind == "ordinal":
        ranks = [rank for rank, flag in enumerate(categories_of(word, column) or ()) if flag]
        return (float(ranks[0]), float(ranks[-1])) if ranks else None
    if column.kind == "date":
        return _dates(word)
    return _numbers(word, low, high, whole=column.kind == "integer")


def categories_of(word: str, column: Column, hierarchy: Hierarchy | None = None) -> tuple[bool, ...] | None:
    """The categories that a cell allows, as flags; None where it names no set of them."""
    names = column.categories or ()
    flags: list[bool] | None = None
    if hierarchy is not None and word in hierarchy:
        flags = [name in hierarchy[word] for name in names]
    elif word.strip().lower() in ANYTHING or not word.strip("* "):
        flags = [True] * len(names)
    elif parts := _listed(word):
        flags = [name in parts for name in names] if parts <= set(names) else None
    elif "*" in word:
        pattern = re.compile("".join("." if sign == "*" else re.escape(sign) for sign in word.strip()))
        flags = [bool(pattern.fullmatch(name)) for name in names]
    elif found := _numbers(word, -math.inf, math.inf, whole=False):
        values = [_number(name) for name in names]
        flags = [value is not None and found[0] <= value <= found[1] for value in values]
    return tuple(flags) if flags is not None and any(flags) else None


def _numbers(word: str, low: float, high: float, *, whole: bool) -> Interval | None:
    step = 1.0 if whole else 0.0
    if found := FROM_TO.fullmatch(word):
        ends = float(found[1]), float(found[2])
    elif found := BRACKETS.fullmatch(word):
        ends = (
            _end(found[2], low) + (step if found[1] == "(" and _is_number(found[2]) else 0.0),
            _end(found[3], high) - (step if found[4] == ")" and _is_number(found[3]) else 0.0),
        )
    elif found := ONE_SIDED.fullmatch(word):
        value, inside = float(found[2]), 0.0 if found[1] in ("<=", ">=", "≤", "≥") else step
        ends = (low, value - inside) if found[1] in ("<", "<=", "≤") else (value + inside, high)
    elif found := AND_MORE.fullmatch(word):
        ends = float(found[1]), high
    elif re.fullmatch(r"\s*-?\d+\*+\s*", word):
        ends = float(word.replace("*", "0")), float(word.replace("*", "9"))
        ends = min(ends), max(ends)
    elif parts := _listed(word):
        values = [_number(part) for part in parts]
        if any(value is None for value in values):
            return None
        ends = min(value for value in values if value is not None), max(value for value in values if value is not None)
    else:
        return None
    return ends if ends[0] <= ends[1] else None


def _dates(word: str) -> Interval | None:
    try:
        if found := DATES.fullmatch(word):
            first, last = (datetime.date.fromisoformat(part) for part in found.groups())
        elif found := DATE_PREFIX.fullmatch(word):
            year, month = int(found[1]), int(found[2] or 1)
            first = datetime.date(year, month, 1)
            after = datetime.date(year + 1, 1, 1) if not found[2] or month == 12 else datetime.date(year, month + 1, 1)
            last = after - datetime.timedelta(days=1)
        else:
            return None
    except ValueError:
        return None
    return (float((first - EPOCH).days), float((last - EPOCH).days)) if first <= last else None


def _listed(word: str) -> frozenset[str]:
    """The members of {a, b}, [a; b], a|b."""
    found = LISTED.fullmatch(word)
    inside = word if found is None else found[1] or found[2] or ""
    parts: Sequence[str] = re.split(r"[|;,]" if found else r"[|;]", inside)
    return frozenset(part.strip() for part in parts if part.strip()) if found or len(parts) > 1 else frozenset()


def _value(word: str, column: Column) -> float | None:
    """One value of a hierarchy in raw units."""
    if column.kind == "ordinal":
        names = column.categories or ()
        return float(names.index(word)) if word in names else None
    if column.kind == "date":
        try:
            return float((datetime.date.fromisoformat(word) - EPOCH).days)
        except ValueError:
            return None
    return _number(word)


def _number(word: str) -> float | None:
    return float(word) if re.fullmatch(rf"\s*{NUMBER}\s*", word) else None


def _is_number(word: str) -> bool:
    return _number(word) is not None


def _end(word: str, otherwise: float) -> float:
    return float(word) if _is_number(word) else otherwise
