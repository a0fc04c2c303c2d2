"""Columns of a block into the encoded matrix; what cannot be encoded is refused by column and row."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.array_types import Codes, Flags, Floats
from sfumato.core.errors import SchemaError, TableError
from sfumato.core.wording import counted, said
from sfumato.table import arrays
from sfumato.table.column import Column, cut, nearest
from sfumato.table.infer import TableWarning
from sfumato.table.schema import Group

# Cells that fit no category of a schema, told by column and number; their words stay where they are.


REFUSING = " To refuse them instead: --unknown refuse."


class UnknownCategoryWarning(TableWarning):
    """Rows hold categories or classes that were not there before."""


def unfit_in_words(unfit: Mapping[str, int], whose: str) -> str:
    """Which columns hold categories that `whose` rows do not have, and in how many cells; "" for none."""
    if not unfit:
        return ""
    columns = ", ".join(f"{name} ({counted(count, 'cell')})" for name, count in unfit.items())
    return f"Categories that {whose} does not have were treated as missing: {columns}."


def warn_of_unfit(unfit: Mapping[str, int], whose: str, instead: str = REFUSING, stacklevel: int = 2) -> None:
    """The same as a warning, with the way to refuse such rows."""
    if words := unfit_in_words(unfit, whose):
        warnings.warn(f"{words}{instead}", UnknownCategoryWarning, stacklevel=stacklevel + 1)


REFUSE, MISSING_INSTEAD = "refuse", "missing"
BLIND = "blind"
"""Like "missing", and no cell of any column is refused: whether there is one that does not fit stays untold. It is
no choice of the user's, but what a claim about presence needs."""
UNKNOWN_WAYS = (MISSING_INSTEAD, REFUSE)
"""What is done with a category that the schema does not list; an empty cell where none is expected counts as one."""

NOT_TOLD, UNLISTED = -1, -2
"""Codes of an empty cell, and of one whose category is not listed."""

TILE = 4096
"""Rows that are moved from columns to the matrix at a time: a tile of 100 columns stays in a core's own cache."""


def column_of(batch: pa.RecordBatch | pa.Table, name: str) -> pa.Array:
    """One column of a block, contiguous."""
    position = batch.schema.get_field_index(name)
    if position < 0:
        raise SchemaError(
            f"The table has no column {name!r}, which the schema names.{nearest(name, batch.schema.names)}"
        )
    return arrays.plain(batch.column(position))


class Numbers(NamedTuple):
    """Raw numbers within the bounds, where cells are empty (None: nowhere), and how many were out of bounds.

    `unfit`: cells of an ordinal that fit none of its categories and count as empty. `ends`: the smallest and the
    largest number as they stand in the table, where there are any.
    """

    values: Floats
    empty: Flags | None
    outside: int = 0
    unfit: int = 0
    ends: tuple[float, float] | None = None


def numbers_of(group: Group, array: pa.Array, first_row: int, unknown: str = REFUSE) -> Numbers:
    """The cells of a column that is encoded as a number."""
    column = group.column
    low, high = column.bounds
    if column.kind == "ordinal":
        codes, unfit = codes_of(column, array, first_row, unknown)
        empty = codes < 0
        return Numbers(np.where(empty, 0, codes).astype(np.float64), empty if empty.any() else None, 0, unfit)
    date = column.kind == "date"
    read = arrays.day_numbers if date else arrays.numbers
    if unknown == BLIND and arrays.is_text(arrays.plain(array).type):
        array = (arrays.parsed_dates if date else arrays.parsed_numbers)(array)
    found = read(array, column.name, first_row)
    values = found.numbers
    if len(values) == 0:
        return Numbers(values, None)
    # Two reductions over clean data are cheaper than masks over every cell; NaN fails both comparisons.
    if found.empty is None and (least := values.min()) >= low and (most := values.max()) <= high:
        return Numbers(values, None, ends=(float(least), float(most)))
    return _within(column, found, first_row, unknown)


def _within(column: Column, found: arrays.Values, first_row: int, unknown: str) -> Numbers:
    """Numbers of which some are empty or out of bounds."""
    low, high = column.bounds
    if unknown == BLIND:
        found = found._replace(numbers=np.nan_to_num(found.numbers, nan=np.nan))  # what is infinite is clipped
    values, empty = arrays.checked(found, column.name, first_row)
    told = values
    if empty is not None:
        if not column.missing and unknown != BLIND:
            raise _unexpected_empty(column, empty, first_row)
        told, values = values[~empty], np.where(empty, low, values)
    outside = int(np.count_nonzero((values < low) | (values > high)))
    ends = (float(told.min()), float(told.max())) if len(told) else None
    return Numbers(np.clip(values, low, high) if outside else values, empty, outside, ends=ends)


def fill_numbers(X: Floats, numeric: list[tuple[int, Floats, float, float]]) -> None:
    """Write (x - l) / (h - l) of many columns into the matrix; into a row-major one, tile by tile."""
    if X.strides[0] == X.itemsize:  # columns lie together: nothing has to be transposed
        for position, values, low, width in numeric:
            column = np.subtract(values, low, out=X[:, position])
            column /= width
        return
    scratch = np.empty(TILE)
    for start in range(0, len(X), TILE):
        tile = X[start : start + TILE]
        buffer = scratch[: len(tile)]
        for position, values, low, width in numeric:
            piece = values[start : start + TILE]
            if low != 0.0:
                piece = np.subtract(piece, low, out=buffer)
            if width != 1.0:
                piece = np.divide(piece, width, out=buffer)
            tile[:, position] = piece


def fill_onehot(X: Floats, group: Group, array: pa.Array, first_row: int, unknown: str = REFUSE) -> int:
    """Write the slots of a categorical column; returns how many cells did not fit and were taken as missing."""
    codes, unfit = codes_of(group.column, array, first_row, unknown)
    X[:, group.slice] = 0.0
    told = codes >= 0
    if told.all():
        X[np.arange(len(codes)), group.start + codes] = 1.0
    else:
        X[np.flatnonzero(told), group.start + codes[told]] = 1.0
        X[~told, group.slice] = group.not_told
    return unfit


def codes_of(
    column: Column, array: pa.Array, first_row: int, unknown: str = REFUSE, *, may_be_empty: bool | None = None
) -> tuple[Codes, int]:
    """Positions of cells in the list of categories, `NOT_TOLD` where a cell is empty, and how many cells do not fit.

    A category that is not listed, and an empty cell of a column that has none, is refused, or with `unknown="missing"`
    let through as `UNLISTED` and `NOT_TOLD`. `may_be_empty` is what the column says, unless given.
    """
    may_be_empty = column.missing if may_be_empty is None else may_be_empty
    if column.edges is not None:
        array = cut(array, column.edges, column.categories or (), column.name)
    words = arrays.text(array, column.name)
    found = pc.index_in(words, value_set=pa.array(column.categories or (), pa.string()))
    if found.null_count == 0:
        return np.asarray(arrays.as_numpy(found), dtype=np.int64), 0
    empty = arrays.as_numpy(words.is_null())
    strange = arrays.as_numpy(pc.and_(words.is_valid(), found.is_null()))
    if unknown == REFUSE and strange.any():
        what = "class" if column.role == "label" else "category"
        raise TableError(
            "Column {name!r} holds a {what} that the schema does not list, first in row {row}. Add it to "
            "the schema's categories, or correct the table.",
            name=column.name,
            what=said(what),
            row=first_row + int(strange.argmax()) + 1,
        )
    if unknown == REFUSE and not may_be_empty and empty.any():
        raise _unexpected_empty(column, empty, first_row)
    unfit = int(np.count_nonzero(strange)) + (0 if may_be_empty else int(np.count_nonzero(empty)))
    codes = np.array(arrays.as_numpy(found.fill_null(NOT_TOLD)), dtype=np.int64)
    codes[strange] = UNLISTED
    return codes, unfit


def _unexpected_empty(column: Column, empty: Flags, first_row: int) -> TableError:
    row = first_row + int(empty.argmax()) + 1
    if column.role == "label":
        return TableError(
            "The column to predict {name!r} is missing in row {row}. Remove such rows first.", name=column.name, row=row
        )
    return TableError(
        "Column {name!r} is empty in row {row}, but the schema does not allow it. Set `missing: true` "
        "for the column in the schema, or fill the cell.",
        name=column.name,
        row=row,
    )
