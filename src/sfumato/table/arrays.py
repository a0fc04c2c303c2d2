"""Arrow arrays as numbers, days or text, whatever type the source gave them; errors name the row, never the cell."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.array_types import Flags, Floats
from sfumato.core.errors import TableError

DAY = 86_400
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")
# Years 1 to 9999: what every system that reads a date can hold.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896


class Values(NamedTuple):
    """Numbers of a column, and where its cells are empty (None: nowhere); empty cells hold 0."""

    numbers: Floats
    empty: Flags | None


def plain(array: Any) -> pa.Array:
    """One contiguous array without dictionary: unused categories of the original must not travel."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array


def as_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """The memory of numbers or truth values without empty cells; shared where Arrow stores it as numpy does."""
    if pa.types.is_boolean(array.type):
        return as_numpy(array.cast(pa.uint8())).view(np.bool_)
    kind = np.dtype(array.type.to_pandas_dtype())
    if len(array) == 0:
        return np.empty(0, kind)
    return np.frombuffer(array.buffers()[1], kind)[array.offset : array.offset + len(array)]


def is_text(kind: pa.DataType) -> bool:
    """Any of Arrow's string types."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_number(kind: pa.DataType) -> bool:
    """Integers, floats and decimals."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_date(kind: pa.DataType) -> bool:
    """Dates and timestamps."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def numbers(array: pa.Array, name: str, first_row: int = 0) -> Values:
    """A numeric column as float64, without a copy where it is float64 without empty cells already. NaN counts as empty;
    infinity and text are refused."""
    array = plain(array)
    if isinstance(array, pa.DoubleArray) and not array.null_count:  # the most frequent kind by far
        return Values(array.to_numpy(), None)
    if pa.types.is_null(array.type):
        return Values(np.zeros(len(array)), np.ones(len(array), dtype=bool))
    if is_text(array.type):
        array = _parsed(array, parsed_numbers, name, first_row, "a number")
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    if not is_number(array.type):
        raise TableError(
            f"Column {name!r} should contain numbers, but the table's type is {array.type}. "
            "Convert it, or change its kind in the schema."
        )
    empty = as_numpy(array.is_null()) if array.null_count else None
    array = array.fill_null(0) if array.null_count else array
    if not pa.types.is_float64(array.type):
        array = array.cast(pa.float64(), safe=False)
    return Values(as_numpy(array), empty)


def checked(values: Values, name: str, first_row: int = 0) -> Values:
    """The same values with NaN counted as empty; raises where one is infinite. Costs two passes over clean data."""
    found, empty = values
    if len(found) == 0 or (np.isfinite(found.min()) and np.isfinite(found.max())):
        return values
    infinite = np.isinf(found)
    if infinite.any():
        raise TableError(
            f"Column {name!r} is infinite in row {first_row + int(infinite.argmax()) + 1}. "
            "Leave the cell empty or correct it."
        )
    nan = np.isnan(found)
    return Values(np.where(nan, 0.0, found), nan if empty is None else nan | empty)


def day_numbers(array: pa.Array, name: str, first_row: int = 0) -> Values:
    """A date column as days since 1970-01-01; a time of day becomes a fraction."""
    array = plain(array)
    if pa.types.is_null(array.type):
        return Values(np.zeros(len(array)), np.ones(len(array), dtype=bool))
    if is_text(array.type):
        array = _parsed(array, parsed_dates, name, first_row, "an ISO date (2001-12-31)")
    if not is_date(array.type):
        raise TableError(
            f"Column {name!r} should contain dates, but the table's type is {array.type}. "
            "Convert it, or change its kind in the schema."
        )
    empty = as_numpy(array.is_null()) if array.null_count else None
    if pa.types.is_date(array.type):
        whole = array.cast(pa.date32()).cast(pa.int32()).fill_null(0)
        return Values(np.asarray(as_numpy(whole), dtype=np.float64), empty)
    # Microseconds of days far outside any calendar overflow; such a cell is a mistake, and is said to be one.
    try:
        micro = array.cast(pa.timestamp("us", tz=array.type.tz), safe=False).cast(pa.int64()).fill_null(0)
    except pa.ArrowInvalid:
        raise TableError(f"Column {name!r} contains a time outside the calendar (years 1 to 9999).") from None
    return Values(as_numpy(micro) / (DAY * 1e6), empty)


def text(array: pa.Array, name: str) -> pa.Array:
    """A column as strings, spelt alike whatever the source's type: 1, 1.0 and "1" are the category "1"."""
    array = plain(array)
    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_string(kind):
        return array
    others = (is_text, is_date, pa.types.is_boolean, pa.types.is_integer, pa.types.is_time)
    if any(other(kind) for other in others):
        return array.cast(pa.string())
    if is_number(kind):
        wide = array.cast(pa.float64(), safe=False)
        wide = pc.if_else(pc.is_nan(wide), None, wide)
        whole = pc.and_(pc.equal(pc.trunc(wide), wide), pc.less(pc.abs(wide), 2.0**53))
        if pc.all(whole).as_py() is not False:
            return wide.cast(pa.int64(), safe=False).cast(pa.string())
        return pa.array([None if v is None else _spelt(v) for v in wide.to_pylist()], pa.string())
    raise TableError(
        f"Column {name!r} has the type {kind}, which cannot be used. Convert it, or leave the column out of the table."
    )


def _spelt(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def typed_categories(categories: tuple[str, ...]) -> pa.Array:
    """Categories as integers, numbers or truth values where all of them are spelt as `text` spells these, else text."""
    if all(_WHOLE.fullmatch(category) for category in categories):
        return pa.array([int(category) for category in categories], pa.int64())
    with suppress(ValueError):  # where one is no number
        values = [float(category) for category in categories]
        if all(math.isfinite(one) and _spelt(one) == word for one, word in zip(values, categories, strict=True)):
            return pa.array(values, pa.float64())
    if set(categories) == {"false", "true"}:
        return pa.array([category == "true" for category in categories], pa.bool_())
    return pa.array(categories, pa.string())


COMMA_NUMBER = r"^\s*[+-]?\d+,\d+\s*$"
"""A number with a decimal comma (or one mark between thousands: the cell alone does not tell)."""
MARKED_NUMBER = (
    r"^\s*[+-]?(?:\d+,\d+|\d{1,3}(?:[.,'\x{2019} \x{a0}\x{202f}]\d{3})+(?:[.,]\d+)?|\d+,\d+[eE][+-]?\d+)\s*$"
)
"""A number that is written with commas, or with marks between thousands."""
OTHER_DATE = (
    r"^\s*(?:\d{1,2}[./-]\d{1,2}[./-]\d{2}(?:\d{2})?|\d{4}[./]\d{1,2}[./]\d{1,2})(?:[T ,]+\d{1,2}:\d{2}.*)?\s*$"
)
"""A date that is not written as ISO 8601 has it: day and month cannot be told apart for sure, but where points stand
between them."""
_DOTTED = r"^\d{1,2}\.\d{1,2}\.\d{4}"
"""A date as it is written in much of Europe: the day, the month, the year."""


BLANKS = frozenset(
    ("?", "-", "--", ".", "*", "n/a", "#n/a", "n.a.", "na", "null", "none", "missing", "unknown", "empty", "blank")
)
"""Words that stand for no value wherever they are met, so that a message may say them; other cells are private."""


def if_blank(words: Iterable[str]) -> str:
    """What to do where some of these cells, which should be numbers or dates, mean that there is no value."""
    found = sorted({word.strip() for word in words if word.strip().casefold() in BLANKS})
    if not found:
        return " If a word there means an empty cell, add --missing WORD."
    return f' If {" and ".join(map(repr, found))} there means an empty cell, add --missing "{",".join(found)}".'


def has_leading_zeros(array: pa.Array) -> bool:
    """Whether a text cell is an integer with a leading zero, such as a postal code: a name, not a number."""
    starts = array.filter(pc.starts_with(array, "0"))
    return len(starts) > 0 and pc.any(pc.match_substring_regex(starts, r"^0\d+$")).as_py() is True


def parsed_numbers(array: pa.Array) -> pa.Array:
    """Text cells as float64; null where a cell is no number (or was empty)."""
    trimmed = pc.utf8_trim_whitespace(array.cast(pa.string()))
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:
        good = pc.match_substring_regex(
            trimmed, r"^[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)$"
        )
        # Arrow's parser takes no leading plus.
        bare = pc.replace_substring_regex(trimmed, r"^\+", "")
        return pc.if_else(good, bare, None).cast(pa.float64())


_ZONE = r"(?:Z|[+-]\d{2}:?\d{2})$"
_DATE = r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?\s?(?:Z|[+-]\d{2}:?\d{2})?)?$"


def parsed_dates(array: pa.Array) -> pa.Array:
    """Text cells as timestamps (of UTC, where a cell names its zone); null where a cell is empty, or no date of
    ISO 8601 or with points."""
    trimmed = pc.utf8_trim_whitespace(array.cast(pa.string()))
    if pc.any(pc.match_substring_regex(trimmed, _DOTTED)).as_py():
        full = (r"^(\d\d)\.(\d\d)\.(\d{4})", r"\3-\2-\1")
        for short, long in ((r"^(\d)\.", r"0\1."), (r"^(\d\d)\.(\d)\.", r"\1.0\2."), full):
            trimmed = pc.replace_substring_regex(trimmed, short, long)
    candidates = pc.if_else(pc.match_substring_regex(trimmed, _DATE), trimmed, None)
    candidates = pc.replace_substring_regex(candidates, r"(\.\d{6})\d+", r"\1")  # finer than a microsecond
    candidates = pc.replace_substring_regex(candidates, r"\s(Z|[+-]\d{2}:?\d{2})$", r"\1")
    zoned = pc.match_substring_regex(candidates, _ZONE)
    zoned = pc.and_(zoned, pc.match_substring(candidates, ":"))  # the end of a plain date looks like a zone
    try:
        plain_times = pc.if_else(zoned, None, candidates).cast(pa.timestamp("us"))
        if pc.any(zoned).as_py() is not True:
            return plain_times
        in_utc = pc.if_else(zoned, candidates, None).cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
        return pc.coalesce(plain_times, in_utc)
    except pa.ArrowInvalid:  # looks like a date but is none, such as 2001-02-31
        return pa.array([_timestamp(value) for value in candidates.to_pylist()], pa.timestamp("us"))


def _timestamp(value: str | None) -> datetime.datetime | None:
    with suppress(ValueError):
        found = None if value is None else datetime.datetime.fromisoformat(value)
        return found if found is None or found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)
    return None


def _parsed(array: pa.Array, parse: Callable[[pa.Array], pa.Array], name: str, first_row: int, what: str) -> pa.Array:
    """Text cells as numbers or dates; refused where one is neither that nor empty."""
    found = parse(array)
    if found.null_count == array.null_count:
        return found
    wrong = as_numpy(pc.and_(array.is_valid(), found.is_null()))
    row = first_row + int(np.argmax(wrong)) + 1
    cells = array.filter(pa.array(wrong))
    if pc.any(pc.match_substring_regex(cells, COMMA_NUMBER)).as_py():
        hint = " If its numbers have a decimal comma, add --decimal , (CSV files)."
    else:
        hint = if_blank(pc.unique(cells).to_pylist())
    raise TableError(
        f"Column {name!r} contains text that is not {what} in row {row}.{hint} Otherwise correct the cell, leave it "
        "empty, or change the column's kind in the schema."
    )
