"""A column-wise release back to a matrix: the inverse of `Encoding.decode`, without bounds."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from sfumato.array_types import Codes, Flags, Floats
from sfumato.errors import TableError
from sfumato.table.arrays import Values, checked, day_numbers, is_number, numbers, plain
from sfumato.table.encoding import Encoding
from sfumato.table.filling import MISSING_INSTEAD, NOT_TOLD, codes_of, column_of
from sfumato.table.groups import Group

NOT_ON_CARD = (
    "Its card does not say that cells can be missing there: the release was changed or damaged. Get it again from "
    "whoever made it."
)


def recode(
    encoding: Encoding,
    released: pa.Table,
    *,
    ranks: bool = False,
    guessed: bool = False,
    unreported: Collection[str] = (),
    why: str = NOT_ON_CARD,
    first_row: int = 0,
) -> Floats:
    """Encoded units of released cells; noise may have carried them anywhere, so nothing is clipped.

    An empty cell is read as missing where the column can be. Anywhere else it is refused: read as the middle of its
    range, as it would have to be, every learner and attack would believe it. `why` ends the message. Only who `guessed`
    may leave cells open. In columns that are `unreported` in part, an empty cell is NaN: there is nothing to read.

    Numbers in an ordinal column are `ranks` after noise; else they are ranks only if they are no categories.
    `first_row` is the number of rows before this block, for messages.
    """
    X = np.zeros((released.num_rows, encoding.width))
    for group in encoding.groups:
        name, array = group.column.name, plain(column_of(released, group.column.name))
        if group.is_onehot:
            codes = _codes(group, array, first_row)
            empty: Flags | None = codes == NOT_TOLD
            told = np.flatnonzero(codes != NOT_TOLD)
            X[told, group.start + codes[told]] = 1.0
        else:
            values, empty = checked(_raw(group, array, first_row, ranks), name, first_row)
            low, high = group.column.bounds
            X[:, group.start] = 0.5 if low == high else (values - low) / (high - low)
        if empty is not None and empty.any():
            if name not in unreported and not (group.column.missing or guessed):
                raise unstated(name, first_row + int(empty.argmax()) + 1, why)
            X[empty, group.slice] = np.nan if name in unreported else group.not_told
    return X


def unstated(name: str, row: int, why: str = NOT_ON_CARD) -> TableError:
    """A released cell that is empty although nothing says that cells of its column can be."""
    return TableError(f"Column {name!r} of the release is empty in row {row} (or does not hold a number). {why}")


def _raw(group: Group, array: pa.Array, first_row: int, ranks: bool) -> Values:
    column = group.column
    if column.kind == "date":
        return day_numbers(array, column.name, first_row)
    if column.kind != "ordinal":
        return numbers(array, column.name, first_row)
    if is_number(array.type) and (ranks or codes_of(column, array, first_row, MISSING_INSTEAD, may_be_empty=True)[1]):
        return numbers(array, column.name, first_row)
    codes = _codes(group, array, first_row)
    empty = codes == NOT_TOLD
    return Values(np.where(empty, 0, codes).astype(np.float64), empty if empty.any() else None)


def _codes(group: Group, array: pa.Array, first_row: int) -> Codes:
    """Positions of released categories; one that nobody lists is refused, an empty cell is `NOT_TOLD`."""
    return codes_of(group.column, array, first_row, may_be_empty=True)[0]
