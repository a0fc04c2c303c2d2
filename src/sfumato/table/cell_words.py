"""Cells as words that do not depend on how a table was written, so that the same row is known again.

A number counts by its value in single precision, whatever its type or format (1, 1.0, "01" and 1e0 are one word), a
date by its day, truth values as 1 and 0, and everything else by its spelling, as names of people do. Neither bounds
nor categories nor the kind that a schema gives a column play a part.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.table import arrays
from sfumato.table.persons import one_spelling

Words = NDArray[np.uint32]

EMPTY = np.uint32(0x7FC00000)
"""The word of an empty cell: what NaN looks like."""
_TRUTH = {"true": 1.0, "false": 0.0}


def cell_words(array: pa.Array, name: str) -> Words:
    """One word for every cell of a column."""
    array = arrays.plain(array)
    if arrays.is_date(array.type):
        found = arrays.day_numbers(array, name)
    elif arrays.is_number(array.type) or pa.types.is_boolean(array.type):
        found = arrays.numbers(array, name)
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
    values = np.where(told, np.asarray(numbers.fill_null(0.0)), days.numbers)
    words[:-1] = _number_words(values)
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
