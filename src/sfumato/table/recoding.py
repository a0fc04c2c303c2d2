"""A column-wise release back to a matrix: the inverse of `Encoding.decode`, without bounds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.table.arrays import Values, checked, day_numbers, numbers, plain
from sfumato.table.encoding import Encoding
from sfumato.table.filling import column_of, fill_onehot
from sfumato.table.groups import Floats, Group


def recode(encoding: Encoding, released: pa.Table) -> Floats:
    """Encoded units of released cells; noise may have carried them anywhere, so nothing is clipped or refused.

    An ordinal column holds ranks after noise, and categories after `like_original`; both are read. An empty cell
    of a column that has no "missing" is taken as the middle of its range.
    """
    X = np.zeros((released.num_rows, encoding.width))
    for group in encoding.groups:
        array = plain(column_of(released, group.column.name))
        if group.is_onehot:
            fill_onehot(X, group, array, 0)
            continue
        values, empty = checked(_raw(group, array), group.column.name)
        low, high = group.column.bounds
        X[:, group.start] = 0.5 if low == high else (values - low) / (high - low)
        if empty is not None:
            X[empty, group.start] = 0.5
            if group.has_indicator:
                X[empty, group.start + 1] = 1.0
    return X


def _raw(group: Group, array: pa.Array) -> Values:
    column = group.column
    if column.kind == "date":
        return day_numbers(array, column.name)
    if column.kind != "ordinal":
        return numbers(array, column.name)
    if pa.types.is_floating(array.type):
        return numbers(array, column.name)  # ranks, as noise leaves them
    rank = {category: float(place) for place, category in enumerate(column.categories or ())}
    found = [rank.get(str(value)) for value in array.to_pylist()]
    empty = np.array([value is None for value in found])
    return Values(np.array([0.0 if value is None else value for value in found]), empty if empty.any() else None)
