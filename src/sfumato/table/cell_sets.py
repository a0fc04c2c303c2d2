"""Who a row belongs to, without keeping who that is.

Two spellings of one person would give that person twice the rows that a cap allows, so names that are likely to mean
the same person count as one: see `one_spelling`. Two people who are taken for one lose rows, and nothing else.
"""

from __future__ import annotations

import calendar
import csv
import datetime
import hashlib
import math
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Context, Decimal, InvalidOperation
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.core.array_types import Floats, Hashes
from sfumato.core.errors import TableError
from sfumato.table import arrays
from sfumato.table.column import EPOCH, Column

# Tables as people hold them: what comes in says as what the answer goes out.

PANDAS, POLARS, ARROW = "pandas", "polars", "pyarrow"


def kind_of(source: Any) -> str:
    """In which form to answer a caller who gave this: in kind; for paths and the like as pandas where it is installed.

    >>> kind_of(pa.table({"a": [1]}))
    'pyarrow'
    """
    makers = {parent.__module__.partition(".")[0] for parent in type(source).__mro__}
    usual = PANDAS if find_spec(PANDAS) is not None else ARROW
    return next((kind for kind in (PANDAS, POLARS, ARROW) if kind in makers), usual)


def as_frame(table: pa.Table, kind: str) -> Any:
    """An Arrow table as a data frame of another kind."""
    if kind == PANDAS:
        return table.to_pandas(date_as_object=False)
    if kind == POLARS:
        import polars

        return polars.from_arrow(table)
    return table


# Drawn anew in every process and never written: hashes of one run cannot be matched with those of another.
_KEY = os.urandom(32)
LONGEST = 400
"""Digits of a number that is written out; longer ones have an exponent."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,9})?")


def one_spelling(word: str) -> str:
    """The name by which a person is counted: 1, 1.0, 01 and " 1" are one, as are "Ann Lee" and "ANN  LEE". Letters are
    compared without case and in one form (NFKC: full-width and joined letters are plain ones), without invisible
    characters and with single spaces; what reads as a number counts by its value, leading zeros or not."""
    if len(word) < LONGEST and word.isascii() and word.isdigit() and not word.startswith("0"):
        return word
    seen = "".join(letter for letter in unicodedata.normalize("NFKC", word) if unicodedata.category(letter) != "Cf")
    # some letters decompose only after they were folded, and the other way round
    plain = " ".join(unicodedata.normalize("NFKC", seen.casefold()).split())
    return _written_value(plain) if _NUMBER.fullmatch(plain) else plain


def _written_value(number: str) -> str:
    """All digits count: none is rounded away, however long a number is."""
    exact = Context(prec=len(number) + 1, Emax=10**10, Emin=-(10**10), traps=[InvalidOperation])
    found = exact.normalize(Decimal(number))
    if not found:
        return "0"
    places = found.as_tuple().exponent
    return f"{found:f}" if isinstance(places, int) and -LONGEST < places < LONGEST else str(found)


def person_codes(array: pa.Array, name: str, first_row: int = 0) -> npt.NDArray[np.uint64]:
    """Keyed 64-bit hash of every cell (BLAKE2b); two different persons collide with probability 2^-64."""
    _, spelled, places = _persons(array, name, first_row)
    return _hashed(spelled, places, _KEY, 8).view("<u8").astype(np.uint64, copy=False)


def person_hashes(array: pa.Array, name: str, first_row: int, key: bytes) -> tuple[Hashes, Hashes]:
    """128-bit hash of every cell under the owner's own key, by which a person is known again next month. The second one
    is of the cell as it is written, by which memories of version 0.1.0 know their people."""
    written, spelled, places = _persons(array, name, first_row)
    return _hashed(spelled, places, key, 16), _hashed(written, places, key, 16)


def _persons(array: pa.Array, name: str, first_row: int) -> tuple[list[str], list[str], npt.NDArray[np.integer[Any]]]:
    """Distinct cells as they are written, the names by which people are counted, and the place of every row's among
    these."""
    words = arrays.text(array, name)
    distinct = pc.unique(words)
    written = ["" if word is None else word for word in distinct.to_pylist()]
    spelled = [one_spelling(word) for word in written]
    places = arrays.as_numpy(pc.index_in(words, value_set=distinct))
    empty = np.array([not word for word in spelled], dtype=np.bool_)[places]
    if empty.any():
        row = first_row + int(np.argmax(empty)) + 1
        raise TableError(f"The person column {name!r} is empty in row {row}. Every row must belong to a person.")
    return written, spelled, places


def _hashed(words: list[str], places: npt.NDArray[np.integer[Any]], key: bytes, size: int) -> Hashes:
    digests = b"".join(hashlib.blake2b(word.encode(), digest_size=size, key=key).digest() for word in words)
    return np.asarray(np.frombuffer(digests, dtype=f"S{size}")[places])


# Cells as words that do not depend on how a table was written, so that the same row is known again.
#
# A number counts by its value in single precision, whatever its type or format (1, 1.0, "01" and 1e0 are one word), a
# date by its day, truth values as 1 and 0, and everything else by its spelling, as names of people do. Neither bounds
# nor categories nor the kind that a schema gives a column play a part.

Words = NDArray[np.uint32]

EMPTY = np.uint32(0x7FC00000)
"""The word of an empty cell: what NaN looks like."""
_TRUTH = {"true": 1.0, "false": 0.0}


def cell_words(array: pa.Array, name: str) -> Words:
    """One word for every cell of a column."""
    array = arrays.plain(array)
    if arrays.is_number(array.type) or pa.types.is_boolean(array.type):
        found = arrays.numbers(array, name)
    elif arrays.is_date(array.type):
        found = arrays.day_numbers(array, name)
    else:
        return _text_words(arrays.text(array, name))
    words = _number_words(found.numbers)
    return words if found.empty is None else np.where(found.empty, EMPTY, words)


def _number_words(values: Floats) -> Words:
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    single += np.float32(0.0)  # -0 and 0 are one number
    if len(single) and np.isnan(single.max()):  # there is one at least: all look alike
        single[np.isnan(single)] = np.nan
    return single.view(np.uint32)


def _text_words(cells: pa.Array) -> Words:
    """Every distinct text is looked at once: as a number, else as a date, else as it is spelt."""
    distinct = pc.unique(cells).drop_null()
    words = np.full(len(distinct) + 1, EMPTY, dtype=np.uint32)  # the last one is for cells without a text
    numbers = arrays.parsed_numbers(distinct)
    days = arrays.day_numbers(arrays.parsed_dates(distinct), "")
    told = np.asarray(numbers.is_valid())
    words[:-1] = _number_words(np.where(told, np.asarray(numbers.fill_null(0.0)), days.numbers))
    if days.empty is not None:
        for place in np.flatnonzero(~told & days.empty):
            words[place] = _spelt(distinct[int(place)].as_py())
    places = pc.index_in(cells, value_set=distinct).fill_null(len(distinct))
    return np.asarray(words[np.asarray(places)])


def _spelt(text: str) -> np.uint32:
    spelling = one_spelling(text)
    if not spelling:
        return EMPTY
    try:
        value = _TRUTH[spelling] if spelling in _TRUTH else float(spelling)
    except ValueError:
        return np.uint32(int.from_bytes(hashlib.blake2b(spelling.encode(), digest_size=4).digest(), "little"))
    return np.uint32(_number_words(np.array([value]))[0])


# Cells that name several values: "30-39", "[30,40)", "902**", "{A, B}", "*", or a word of a hierarchy.
#
# A set of a number is an interval in raw units, a set of a category a tuple of flags, one for each category.

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
    """A hierarchy as ARX writes it: one line for each value, from the value to ever wider words, by semicolons. A comma
    or a tab does too. Lines of unequal length have holes, which are refused with their number."""
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
    """The values of a number, date or ordinal column that a cell allows; None where it names no set. Of whole numbers
    "[30,40)" is 30 to 39. What is open ends at the column's bounds."""
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
    if hierarchy is not None and word in hierarchy:
        allowed = hierarchy[word]
    elif word.strip().lower() in ANYTHING or not word.strip("* "):
        allowed = frozenset(names)
    else:
        allowed = _named_by(word, names)
    flags = tuple(name in allowed for name in names)
    return flags if any(flags) else None


def _named_by(word: str, names: Sequence[str]) -> frozenset[str]:
    """The names that a cell lists, shows in part, or has within its interval; none where it does none of these."""
    if parts := _listed(word):
        return parts if parts <= set(names) else frozenset()
    if "*" in word:
        pattern = re.compile("".join("." if sign == "*" else re.escape(sign) for sign in word.strip()))
        return frozenset(name for name in names if pattern.fullmatch(name))
    low, high = _numbers(word, -math.inf, math.inf, whole=False) or (math.inf, -math.inf)
    values = {name: _number(name) for name in names}
    return frozenset(name for name, value in values.items() if value is not None and low <= value <= high)


def _numbers(word: str, low: float, high: float, *, whole: bool) -> Interval | None:
    step = 1.0 if whole else 0.0
    if found := FROM_TO.fullmatch(word):
        ends = float(found[1]), float(found[2])
    elif found := BRACKETS.fullmatch(word):
        ends = _bracketed(found, low, high, step)
    elif found := ONE_SIDED.fullmatch(word):
        value, inside = float(found[2]), 0.0 if found[1] in ("<=", ">=", "≤", "≥") else step
        ends = (low, value - inside) if found[1] in ("<", "<=", "≤") else (value + inside, high)
    elif found := AND_MORE.fullmatch(word):
        ends = float(found[1]), high
    elif re.fullmatch(r"\s*-?\d+\*+\s*", word):
        ends = float(word.replace("*", "0")), float(word.replace("*", "9"))
        ends = min(ends), max(ends)
    else:
        values = [_number(part) for part in _listed(word)]
        known = [value for value in values if value is not None]
        ends = (min(known), max(known)) if known and len(known) == len(values) else (math.inf, -math.inf)
    return ends if ends[0] <= ends[1] else None


def _bracketed(found: re.Match[str], low: float, high: float, step: float) -> Interval:
    """[a, b), where a round bracket leaves out an end that is named."""
    first, last = _number(found[2]), _number(found[3])
    least = low if first is None else first + step * (found[1] == "(")
    return least, high if last is None else last - step * (found[4] == ")")


def _dates(word: str) -> Interval | None:
    try:
        if found := DATES.fullmatch(word):
            first, last = (datetime.date.fromisoformat(part) for part in found.groups())
        elif found := DATE_PREFIX.fullmatch(word):
            year, begins, ends = int(found[1]), int(found[2] or 1), int(found[2] or 12)
            first = datetime.date(year, begins, 1)
            last = datetime.date(year, ends, calendar.monthrange(year, ends)[1])
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
        with suppress(ValueError):
            return float((datetime.date.fromisoformat(word) - EPOCH).days)
        return None
    return _number(word)


def _number(word: str) -> float | None:
    return float(word) if re.fullmatch(rf"\s*{NUMBER}\s*", word) else None
