"""Learn a schema from a table: kinds, bounds, categories, and columns that look like identifiers."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.array_types import Flags, Floats
from sfumato.core.errors import PrivacyLeakWarning, SchemaError, TableError
from sfumato.core.wording import counted, said
from sfumato.table import arrays
from sfumato.table.arrays import if_blank, is_date
from sfumato.table.column import EXACT_INTEGERS, MISSING, Column, iso_date, nearest, told_apart
from sfumato.table.readers import open_table
from sfumato.table.tables import Table

# What one pass over a column's blocks tells: range, categories, empty cells, and what its text looks like.

SAMPLE_ROWS = 100_000
"""Distinct values are counted over this many rows at most, so that memory does not grow with the table."""


class Summary:
    """Running summary of one column. Text is looked at through its distinct values, which are few where it matters."""

    def __init__(self, name: str, kind: pa.DataType, as_categories: bool = False) -> None:
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        self.name = name
        self.kind = kind
        self.as_text = as_categories or arrays.is_text(kind) or bool(pa.types.is_boolean(kind))
        self.rows = self.empty = self.sampled = 0
        self.firsts: dict[str, int] = {}
        """The first row, counted from 1, that is "empty", or holds "text" that is no number."""
        self.ends: dict[str, tuple[float, float]] = {}
        """Least and greatest of the "values" (of text: of its numbers), and of the "days" of text."""
        self.looks: Counter[str] = Counter()
        """How many text cells look like numbers or dates, how long they are, and how many hold several words."""
        self.integral, self.leading_zero = self.as_text or bool(pa.types.is_integer(kind)), False
        self.words: set[str] = set()
        self._sample: list[npt.NDArray[np.integer[Any]]] = []
        self._distinct: int | None = None

    def merge(self, later: Summary) -> None:
        """Take in the summary of rows that follow these."""
        for what, row in later.firsts.items():
            self.firsts.setdefault(what, self.rows + row)
        for what, ends in later.ends.items():
            self._reach(what, *ends)
        self.looks.update(later.looks)
        self.leading_zero |= later.leading_zero
        self.integral &= later.integral
        self.rows += later.rows
        self.empty += later.empty
        if len(self.words) < SAMPLE_ROWS:
            self.words |= later.words
        if self.as_text or self.sampled < SAMPLE_ROWS:
            self.sampled += later.sampled
            self._sample += later._sample

    def add(self, array: pa.Array) -> None:
        """Take in the next block."""
        array = arrays.plain(array)
        if self.as_text:
            self._add_text(arrays.text(array, self.name))
        elif not pa.types.is_null(array.type):
            self._add_numbers(array)
        else:
            self._count_empty(np.ones(len(array), dtype=bool))
        self.rows += len(array)

    @property
    def filled(self) -> int:
        """Number of cells that are not empty."""
        return self.rows - self.empty

    @property
    def distinct(self) -> int:
        """Distinct values among the first `sampled` filled cells."""
        if self._distinct is not None:
            return self._distinct
        if self.as_text:
            return len(self.words)
        return len(np.unique(np.concatenate(self._sample))) if self._sample else 0

    @property
    def unlike(self) -> float:
        """Share of distinct values among the cells that were looked at."""
        return self.distinct / max(min(self.sampled, self.filled), 1)

    def finish(self) -> None:
        """Keep what a column is made from, and no more."""
        self._distinct, self._sample = self.distinct, []
        if len(self.words) > MOST_CATEGORIES:
            self.words = set(sorted(self.words)[: MOST_CATEGORIES + 1])

    def _reach(self, what: str, low: float, high: float) -> None:
        least, most = self.ends.get(what, (np.inf, -np.inf))
        self.ends[what] = min(least, low), max(most, high)

    def _add_numbers(self, array: pa.Array) -> None:
        if arrays.is_date(array.type):
            values = arrays.day_numbers(array, self.name, self.rows)
        elif arrays.is_number(array.type):
            values = arrays.numbers(array, self.name, self.rows)
        else:
            raise TableError(
                f"Column {self.name!r} has the type {array.type}, which cannot be used. "
                "Convert it to numbers, text or dates, or leave it out of the table."
            )
        found, low, high = self._range(values)
        if not (np.isfinite(low) and np.isfinite(high)):  # NaN counts as empty, infinity is refused
            values = arrays.checked(values, self.name, self.rows)
            found, low, high = self._range(values)
        if values.empty is not None:
            self._count_empty(values.empty)
        if len(found) == 0:
            return
        self._reach("values", low, high)
        if self.integral and self.sampled < SAMPLE_ROWS:
            whole = arrays.as_numpy(array.drop_null())  # as integers: doubles merge those beyond 2^53
            piece = whole[: SAMPLE_ROWS - self.sampled]
            self._sample.append(piece.copy())
            self.sampled += len(piece)

    def _range(self, values: arrays.Values) -> tuple[Floats, float, float]:
        """Filled cells with their least and greatest value."""
        found = values.numbers if values.empty is None else values.numbers[~values.empty]
        return (found, float(found.min()), float(found.max())) if len(found) else (found, 0.0, 0.0)

    def _add_text(self, words: pa.Array) -> None:
        if words.null_count:
            self._count_empty(arrays.as_numpy(words.is_null()))
        counted = pc.value_counts(words.drop_null())
        values, counts = counted.field(0), arrays.as_numpy(counted.field(1))
        if len(values) == 0:
            return
        if self.sampled < SAMPLE_ROWS:
            self.words.update(values.to_pylist())
            self.sampled += int(counts.sum())
        elif len(self.words) < SAMPLE_ROWS:
            self.words.update(values.to_pylist()[: SAMPLE_ROWS - len(self.words)])
        parsed, dates = arrays.parsed_numbers(values), arrays.parsed_dates(values)
        good = parsed.is_valid()
        looks = {
            "numbers": good,
            "dates": dates.is_valid(),
            "marked": pc.and_not(pc.match_substring_regex(values, arrays.MARKED_NUMBER), good),
            "other_dates": pc.match_substring_regex(values, arrays.OTHER_DATE),
            "phrases": pc.match_substring(values, " "),
        }
        self.looks.update({what: int(counts[arrays.as_numpy(flags)].sum()) for what, flags in looks.items()})
        letters = int((arrays.as_numpy(pc.utf8_length(values)) * counts).sum())
        self.looks.update(cells=int(counts.sum()), letters=letters)
        if parsed.null_count and "text" not in self.firsts:
            first = values[int(np.argmin(arrays.as_numpy(good)))]
            self.firsts["text"] = self.rows + int(pc.index(words, first).as_py()) + 1
        if parsed.null_count < len(parsed):
            self.leading_zero |= arrays.has_leading_zeros(values)
            numbers = arrays.as_numpy(parsed.drop_null())
            self.integral &= bool(np.isfinite(numbers).all() and (numbers == np.trunc(numbers)).all())
            self._reach("values", float(numbers.min()), float(numbers.max()))
        if dates.null_count < len(dates):
            days = arrays.day_numbers(dates.drop_null(), "").numbers
            self._reach("days", float(days.min()), float(days.max()))

    def _count_empty(self, empty: Flags) -> None:
        self.empty += int(np.count_nonzero(empty))
        if empty.any():
            self.firsts.setdefault("empty", self.rows + int(empty.argmax()) + 1)


MOST_CATEGORIES = 200
MOST_CLASSES = 100


class TableWarning(UserWarning):
    """Something about a table that its owner should look at."""


class IdentifierWarning(TableWarning):
    """A column nearly names the people in the table."""


class ConstantWarning(TableWarning):
    """A column has the same value in every row."""


def infer_columns(
    source: Any,
    label: str | None = None,
    *,
    person: str | None = None,
    identifiers: Collection[str] = (),
    refuse: bool = True,
) -> tuple[Column, ...]:
    """One pass over the blocks of a table; see `Schema.infer`."""
    table = open_table(source)
    for name in (label, person, *identifiers):
        if name is not None:
            check_column(table, name)
    special = {name: _identifier(name) for name in identifiers}
    if person is not None:
        special[person] = Column(person, "categorical", role="person")
    summaries = _summarize(table, label, special)
    columns: list[Column] = []
    notes: list[str] = []
    for name in table.names:
        if name in special:
            columns.append(special[name])
        elif name == label:
            columns.append(_label(summaries[name]))
        else:
            columns.append(_private(summaries[name], refuse, notes))
    _warn(columns, notes)
    return tuple(columns)


def check_column(table: Table, name: str, option: str = "") -> None:
    """Refuse a name that no column of the table has, with the names that it has."""
    if name not in table.names:
        hint = nearest(name, table.names)
        if "Did you mean" in hint:
            hint += f" Its columns are: {', '.join(table.names[:60])}{', ...' if len(table.names) > 60 else ''}."
        raise SchemaError(f"{option}{table.where} has no column {name!r}.{hint}")


def identifier_like(summary: Summary) -> bool:
    """Whether a column is (nearly) unique per row, as numbers of people are; measurements (floats) are not meant. An
    integer column must be unique in every row, or in 90% of them with a range far beyond the number of rows; text in
    90% of them."""
    filled = summary.filled
    if filled < 20 or not (summary.as_text or summary.integral):
        return False
    share = summary.unlike
    if summary.as_text:
        return share >= 0.9
    low, high = summary.ends["values"]
    return share == 1.0 or (share >= 0.9 and high - low > 100 * filled)


def _summarize(table: Table, label: str | None, special: dict[str, Column]) -> dict[str, Summary]:
    fields = [field for field in table.arrow_schema if field.name not in special]

    def observe(batches: Iterator[pa.RecordBatch]) -> dict[str, Summary]:
        summaries = {field.name: Summary(field.name, field.type, field.name == label) for field in fields}
        for batch in batches:
            for name, summary in summaries.items():
                summary.add(batch.column(batch.schema.get_field_index(name)))
        return summaries

    def merged(one: dict[str, Summary], other: dict[str, Summary]) -> dict[str, Summary]:
        for name, summary in one.items():
            summary.merge(other[name])
        return one

    def finished(summaries: dict[str, Summary]) -> dict[str, Summary]:
        for summary in summaries.values():
            summary.finish()
        return summaries

    summaries = table.gather(observe, merged, finished)
    rows = next((summary.rows for summary in summaries.values()), 2)
    if rows < 2:
        raise TableError(
            "{where} has {few}. A release needs many.",
            where=table.where,
            few=said("only one row" if rows else "no rows"),
        )
    return summaries


def _label(summary: Summary) -> Column:
    name = summary.name
    if summary.empty:
        raise TableError(
            "The column to predict {name!r} is missing in {rows}, first in row {row}. Remove such rows first.",
            name=name,
            rows=said("1 row" if summary.empty == 1 else "{count:,} rows", count=summary.empty),
            row=summary.firsts["empty"],
        )
    if len(summary.words) < 2:
        raise SchemaError(
            "The column to predict {name!r} has only one class, so there is nothing to learn from it. "
            "Predict another column, or none, or write a schema that names every class that can occur.",
            name=name,
        )
    if len(summary.words) > MOST_CLASSES:
        raise SchemaError(
            "The column to predict {name!r} has more than {most} classes. It must be a class, not "
            "a number; put its values into a few ranges first.",
            name=name,
            most=MOST_CLASSES,
        )
    return Column(name, "categorical", role="label", categories=_sorted(summary.words))


def _identifier(name: str) -> Column:
    return Column(name, "categorical", role="identifier")


def _private(summary: Summary, refuse: bool, notes: list[str]) -> Column:
    """The column as it was found; what cannot be used is refused, or set aside with a note."""
    name, missing = summary.name, summary.empty > 0
    try:
        if summary.filled == 0:
            raise SchemaError(f"Column {name!r} is empty in every row. Drop it from the table, or {AS_IDENTIFIER}.")
        if summary.as_text:
            return _from_text(summary, missing, notes)
        if summary.integral and _too_long(summary):
            return _long_integers(summary, notes)
    except SchemaError as error:
        if refuse:
            raise
        notes.append(f"{str(error).split('. ')[0]}; it was given the role identifier and will not be released.")
        return _identifier(name)
    if identifier_like(summary):
        notes.append(
            f"Column {name!r} is unique in nearly every row, like an ID number. If it identifies people, give it the "
            "role identifier; for now it is kept as private."
        )
    return _dates(summary, "values", missing) if is_date(summary.kind) else _numbers(summary, missing)


def _too_long(summary: Summary) -> bool:
    """Whole numbers so large and so close together that doubles would merge different ones."""
    return summary.distinct > 1 and not told_apart(*summary.ends["values"])


def _long_integers(summary: Summary, notes: list[str]) -> Column:
    """Names rather than numbers: dropped where they name people, refused where they might be something else."""
    name = summary.name
    if identifier_like(summary):
        notes.append(
            f"Column {name!r} holds integers beyond 2^53 that are unique in nearly every row, like ID numbers: it "
            "was given the role identifier and is dropped."
        )
        return _identifier(name)
    raise SchemaError(
        f"Column {name!r} holds integers beyond 2^53 that lie too close together for floating point to tell them "
        f"apart. Subtract a constant, declare it as categorical in a schema, or {AS_IDENTIFIER}."
    )


AS_IDENTIFIER = "give it the role identifier (it is then not released)"


def _from_text(summary: Summary, missing: bool, notes: list[str]) -> Column:
    name, looks = summary.name, summary.looks
    if looks["numbers"] == looks["cells"] and not summary.leading_zero:
        if not np.isfinite(summary.ends["values"]).all():
            raise TableError(
                "Column {name!r} contains an infinite number. Leave the cell empty or correct it.", name=name
            )
        if summary.integral and _too_long(summary):
            return _long_integers(summary, notes)
        return _numbers(summary, missing)
    if looks["dates"] == looks["cells"]:
        return _dates(summary, "days", missing)
    _refuse_unclear(summary)
    if identifier_like(summary):
        notes.append(
            f"Column {name!r} is text that is unique in nearly every row: it was given the role identifier and is "
            "dropped."
        )
        return _identifier(name)
    if summary.distinct > MOST_CATEGORIES:
        raise SchemaError(
            f"Column {name!r} has more than {MOST_CATEGORIES} categories. Join rare ones, drop it from the table, "
            f"or {AS_IDENTIFIER}."
        )
    if missing and MISSING in summary.words:
        raise SchemaError(f"Column {name!r} has both empty cells and the category {MISSING!r}. Clear those cells.")
    return Column(name, "categorical", categories=_sorted(summary.words), missing=missing)


def _refuse_unclear(summary: Summary) -> None:
    """Text that is mostly numbers or dates is neither these nor categories; nor are long phrases that rarely come
    twice."""
    name, looks, half = summary.name, summary.looks, summary.looks["cells"] / 2
    if looks["marked"] and looks["numbers"] + looks["marked"] > half and not summary.leading_zero:
        raise TableError(
            "Column {name!r} looks numeric, but its numbers are written with commas or with marks between "
            "thousands, first in row {row}. If the comma is the decimal mark, add --decimal , (CSV "
            "files); marks between thousands must be removed. If the column is meant to hold categories, "
            "declare it in a schema.",
            name=name,
            row=summary.firsts["text"],
        )
    if looks["dates"] + looks["other_dates"] > half:
        raise SchemaError(
            f"Column {name!r} looks like dates, but not all are written as 2001-12-31 (or 2001-12-31 23:59). Write "
            "all of them in that form; if the column is meant to hold categories, declare it in a schema."
        )
    if looks["numbers"] > half and not summary.leading_zero:
        raise TableError(
            "Column {name!r} looks numeric, but row {row} holds text.{blank} Otherwise correct or "
            "clear the cell; if the column is meant to hold categories, declare it in a schema.",
            name=name,
            row=summary.firsts["text"],
            blank=if_blank(summary.words),
        )
    long = looks["letters"] > 20 * looks["cells"] and looks["phrases"] > half
    if long and summary.distinct > 100 and summary.unlike > 0.2:
        raise SchemaError(
            f"Column {name!r} looks like free text, which cannot be blurred and may name people. "
            f"Drop it from the table, or {AS_IDENTIFIER}."
        )


def _numbers(summary: Summary, missing: bool) -> Column:
    name, (low, high) = summary.name, summary.ends["values"]
    # Beyond 2^53 a double cannot count in ones: such integers are treated as numbers.
    if summary.integral and max(abs(low), abs(high)) <= EXACT_INTEGERS:
        return Column(name, "integer", low=int(low), high=int(high), missing=missing)
    if not math.isfinite(high - low):
        raise TableError("Column {name!r} spans more than a number can hold. Correct its extreme values.", name=name)
    return Column(name, "numeric", low=low, high=high, missing=missing)


def _dates(summary: Summary, what: str, missing: bool) -> Column:
    low, high = summary.ends[what]
    return Column(summary.name, "date", low=iso_date(math.floor(low)), high=iso_date(math.ceil(high)), missing=missing)


def _sorted(words: set[str]) -> tuple[str, ...]:
    """Numbers in their order, words in theirs."""
    try:
        return tuple(sorted(words, key=lambda word: (float(word), word)))
    except ValueError:
        return tuple(sorted(words))


def _warn(columns: list[Column], notes: list[str]) -> None:
    private = [column for column in columns if column.role == "private"]
    constant = [c.name for c in private if not c.is_categorical and np.equal(*c.bounds)]
    constant += [c.name for c in private if c.is_categorical and len(c.categories or ()) == 1 and not c.missing]
    told: dict[type[UserWarning], str] = {IdentifierWarning: " ".join(notes)}
    if constant:
        sentence = "These columns have the same value in every row and say nothing: {names}."
        told[ConstantWarning] = said(sentence, names=", ".join(constant))
    if private:
        told[PrivacyLeakWarning] = (
            f"Bounds and categories of {counted(len(private), 'column')} were read off the private table: no "
            "proof can rest on them, and a card publishes them (smallest, largest, every category). "
            "Write a schema, and mark as public what you know from elsewhere."
        )
    for kind, words in told.items():
        if words:
            warnings.warn(words, kind, stacklevel=4)  # at the caller of Schema.infer
