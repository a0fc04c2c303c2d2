"""Columns of a block into the encoded matrix; what cannot be encoded is refused by column and row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import SchemaError, TableError
from sfumato.table import arrays
from sfumato.table.column import Column, nearest
from sfumato.table.groups import Floats, Group

Codes = npt.NDArray[np.int64]

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


def numbers_of(group: Group, array: pa.Array, first_row: int) -> tuple[Floats, npt.NDArray[np.bool_] | None, int]:
    """Raw numbers within the bounds, where the cells are empty, and how many were out of bounds."""
    column = group.column
    low, high = column.bounds
    if column.kind == "ordinal":
        codes = codes_of(column, column.categories or (), array, first_row, missing_code=-1 if column.missing else None)
        empty = codes < 0
        return codes.astype(np.float64), (empty if empty.any() else None), 0
    read = arrays.day_numbers if column.kind == "date" else arrays.numbers
    found = read(array, column.name, first_row)
    values = found.numbers
    # Two reductions over clean data are cheaper than masks over every cell; NaN fails both comparisons.
    if found.empty is None and (len(values) == 0 or (values.min() >= low and values.max() <= high)):
        return values, None, 0
    values, found_empty = arrays.checked(found, column.name, first_row)
    if found_empty is not None:
        if not column.missing:
            raise _unexpected_empty(column, found_empty, first_row)
        values = np.where(found_empty, low, values)
    outside = int(np.count_nonzero((values < low) | (values > high)))
    return (np.clip(values, low, high) if outside else values), found_empty, outside


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


def fill_onehot(X: Floats, group: Group, array: pa.Array, first_row: int) -> None:
    column = group.column
    missing_code = len(column.categories or ()) if column.missing else None
    codes = codes_of(column, column.categories or (), array, first_row, missing_code)
    X[:, group.slice] = 0.0
    X[np.arange(len(codes)), group.start + codes] = 1.0


def codes_of(
    column: Column, categories: tuple[str, ...], array: pa.Array, first_row: int, missing_code: int | None
) -> Codes:
    """Positions of cells in the list of categories."""
    words = arrays.text(array, column.name)
    found = pc.index_in(words, value_set=pa.array(categories, pa.string()))
    if found.null_count == 0:
        return np.asarray(arrays.as_numpy(found), dtype=np.int64)
    unknown = arrays.as_numpy(pc.and_(words.is_valid(), found.is_null()))
    if unknown.any():
        what = "class" if column.role == "label" else "category"
        raise TableError(
            f"Column {column.name!r} holds a {what} that the schema does not list, first in row "
            f"{first_row + int(unknown.argmax()) + 1}. Add it to the schema's categories, or correct the table."
        )
    if missing_code is None:
        raise _unexpected_empty(column, arrays.as_numpy(words.is_null()), first_row)
    return np.asarray(arrays.as_numpy(found.fill_null(missing_code)), dtype=np.int64)


def _unexpected_empty(column: Column, empty: npt.NDArray[np.bool_], first_row: int) -> TableError:
    row = first_row + int(empty.argmax()) + 1
    if column.role == "label":
        return TableError(f"The label {column.name!r} is missing in row {row}. Remove rows without a label first.")
    return TableError(
        f"Column {column.name!r} is empty in row {row}, and the schema does not expect it. "
        "Set `missing: true` for the column in the schema, or fill the cell."
    )
