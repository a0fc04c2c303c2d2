"""Encoded columns back to a source column."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.array_types import Flags, Floats
from sfumato.table.arrays import DAY, FIRST_DAY, LAST_DAY, typed_categories
from sfumato.table.groups import Group


def decode_group(group: Group, X: Floats, like_original: bool, *, overwrite: bool = False) -> pa.Array:
    """One source column from its encoded columns, which may hold any numbers. NaN is a cell that is not reported.

    With `overwrite` the raw numbers may take the place of the encoded ones.
    """
    if group.is_onehot:
        return _category(group, X.argmax(axis=1), np.asarray(np.isnan(X).any(axis=1)))
    low, high = group.column.bounds
    raw = np.multiply(X[:, 0], high - low, out=X[:, 0] if overwrite else None)
    raw += low
    if not (like_original or group.has_indicator or group.column.kind == "date") and not np.isnan(raw.sum()):
        return pa.array(raw, pa.float64())  # the most frequent kind by far, with no mask to make
    empty = np.isnan(raw)
    if group.has_indicator:
        empty |= X[:, 1] > 0.5
    mask = empty if empty.any() else None
    if like_original:
        return _like_original(group, np.clip(np.where(empty, low, raw), low, high), mask)
    if group.column.kind == "date":
        return _times(np.where(empty, low, raw), mask)
    return pa.array(raw, pa.float64(), mask=mask)


def _like_original(group: Group, raw: Floats, mask: Flags | None) -> pa.Array:
    """Raw numbers within bounds, cast to the column's kind."""
    kind = group.column.kind
    if kind == "numeric":
        return pa.array(raw, pa.float64(), mask=mask)
    whole = np.rint(raw).astype(np.int64)
    if kind == "integer":
        return pa.array(whole, pa.int64(), mask=mask)
    if kind == "date":
        return pa.array(whole.astype(np.int32), pa.int32(), mask=mask).cast(pa.date32())
    return typed_categories(group.column.categories or ()).take(pa.array(whole, mask=mask))


def _category(group: Group, codes: npt.NDArray[np.intp], unreported: Flags) -> pa.Array:
    categories = group.column.categories or ()
    empty = (codes == len(categories)) | unreported
    return typed_categories(categories).take(pa.array(codes, pa.int64(), mask=empty if empty.any() else None))


def _times(raw: Floats, mask: Flags | None) -> pa.Array:
    """Day numbers with fractions as time stamps; what noise pushed out of the calendar stays at its ends."""
    micro = np.rint(np.clip(raw, FIRST_DAY, LAST_DAY) * (DAY * 1e6)).astype(np.int64)
    return pa.array(micro, pa.int64(), mask=mask).cast(pa.timestamp("us"))
