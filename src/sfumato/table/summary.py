"""What one pass over a column's blocks tells: range, categories, empty cells, and what its text looks like."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.array_types import Flags, Floats
from sfumato.errors import TableError
from sfumato.table import arrays

SAMPLE_ROWS = 100_000
"""Distinct values are counted over this many rows at most, so that memory does not grow with the table."""


class Summary:
    """Running summary of one column. Text is looked at through its distinct values, which are few where it matters."""

    def __init__(self, name: str, kind: pa.DataType, as_categories: bool = False) -> None:
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        self.name = name
        self.kind = kind
        self.as_text = as_categories or arrays.is_text(kind) or bool(pa.types.is_boolean(kind))
        self.rows = 0
        self.empty = 0
        self.first_empty: int | None = None
        self.low = np.inf
        self.high = -np.inf
        self.integral = bool(pa.types.is_integer(kind))
        self.sampled = 0
        self.words: set[str] = set()
        self._sample: list[npt.NDArray[np.integer[Any]]] = []
        self._distinct: int | None = None
        self.looks = Looks()

    def merge(self, later: Summary) -> None:
        """Take in the summary of rows that follow these."""
        if self.first_empty is None and later.first_empty is not None:
            self.first_empty = self.rows + later.first_empty
        self.looks.merge(later.looks, self.rows)
        self.rows += later.rows
        self.empty += later.empty
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)
        if len(self.words) < SAMPLE_ROWS:
            self.words |= later.words
        if self.as_text or self.sampled < SAMPLE_ROWS:
            self.sampled += later.sampled
            self._sample += later._sample

    def let_go(self, most: int) -> None:
        """Count distinct values and forget them, but for up to `most` words: those are categories, or no schema is."""
        self._distinct = self.distinct
        self._sample = []
        if len(self.words) > most:
            self.words = set(sorted(self.words)[: most + 1])

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
        self.low, self.high = min(self.low, low), max(self.high, high)
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
        self.looks.add(words, values, counts, self.rows)

    def _count_empty(self, empty: Flags) -> None:
        self.empty += int(np.count_nonzero(empty))
        if self.first_empty is None and empty.any():
            self.first_empty = self.rows + int(empty.argmax()) + 1


class Looks:
    """How many text cells look like numbers or dates, how long they are, and how many hold several words."""

    def __init__(self) -> None:
        self.cells = 0
        self.numbers = 0
        self.dates = 0
        self.marked = 0
        self.other_dates = 0
        self.letters = 0
        self.phrases = 0
        self.first_text: int | None = None
        self.leading_zero = False
        self.integral = True
        self.low, self.high = np.inf, -np.inf
        self.first_day, self.last_day = np.inf, -np.inf

    def add(self, words: pa.Array, values: pa.Array, counts: Floats, first_row: int) -> None:
        """Take in the distinct `values` of a block of `words`, with their counts."""
        self.cells += int(counts.sum())
        self.letters += int((arrays.as_numpy(pc.utf8_length(values)) * counts).sum())
        self.phrases += int(counts[arrays.as_numpy(pc.match_substring(values, " "))].sum())
        self.other_dates += int(counts[arrays.as_numpy(pc.match_substring_regex(values, arrays.OTHER_DATE))].sum())
        self._add_numbers(words, values, counts, first_row)
        dates = arrays.parsed_dates(values)
        self.dates += int(counts[arrays.as_numpy(dates.is_valid())].sum())
        if dates.null_count < len(dates):
            days = arrays.day_numbers(dates.drop_null(), "").numbers
            self.first_day, self.last_day = min(self.first_day, days.min()), max(self.last_day, days.max())

    def merge(self, later: Looks, rows: int) -> None:
        """Take in how the cells of rows look that follow these `rows`."""
        if self.first_text is None and later.first_text is not None:
            self.first_text = rows + later.first_text
        for name in ("cells", "numbers", "dates", "marked", "other_dates", "letters", "phrases"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.leading_zero |= later.leading_zero
        self.integral &= later.integral
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)
        self.first_day, self.last_day = min(self.first_day, later.first_day), max(self.last_day, later.last_day)

    def _add_numbers(self, words: pa.Array, values: pa.Array, counts: Floats, first_row: int) -> None:
        parsed = arrays.parsed_numbers(values)
        good = arrays.as_numpy(parsed.is_valid())
        self.numbers += int(counts[good].sum())
        if self.first_text is None and not good.all():
            first = values[int(np.argmin(good))]
            self.first_text = first_row + int(pc.index(words, first).as_py()) + 1
        marked = arrays.as_numpy(pc.match_substring_regex(values, arrays.MARKED_NUMBER))
        self.marked += int(counts[marked & ~good].sum())
        if not good.any():
            return
        self.leading_zero |= arrays.has_leading_zeros(values)
        numbers = arrays.as_numpy(parsed.drop_null())
        self.integral &= bool(np.isfinite(numbers).all() and (numbers == np.trunc(numbers)).all())
        self.low, self.high = min(self.low, float(numbers.min())), max(self.high, float(numbers.max()))

    @property
    def mean_length(self) -> float:
        """Letters a cell."""
        return self.letters / max(self.cells, 1)
