"""The encoding of a data frame whose columns are not all numbers, from a schema, from bounds, or from itself."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from sfumato.errors import PrivacyLeakWarning, SchemaError, UsageError
from sfumato.table import Column, Encoding, Schema
from sfumato.table.arrays import is_number
from sfumato.table.column import nearest
from sfumato.table.readers import as_arrow

GIVEN = "given as bounds"


def as_frame(X: Any) -> pa.Table | None:
    """A data frame as an Arrow table; None for arrays, lists and sparse matrices."""
    if issparse(X) or isinstance(X, np.ndarray | list | tuple):
        return None
    named = isinstance(X, pa.Table) or (hasattr(X, "columns") and hasattr(X, "shape"))
    return as_arrow(X) if named else None


def is_mixed(frame: pa.Table) -> bool:
    """Whether some column holds no numbers: text, categories, truth values, dates."""
    return not all(is_number(field.type) for field in frame.schema)


def encoding_of(frame: pa.Table, schema: Schema | None, bounds: Any) -> Encoding:
    """Public where a schema or bounds say so; what is learned from the rows is warned of."""
    if schema is not None:
        known = Schema(schema.private)
        if strange := [name for name in frame.column_names if name not in schema]:
            raise SchemaError(f"The schema has no column {strange[0]!r}.{nearest(strange[0], schema.names)}")
        return Encoding(known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # said below, of what is still learned then
        found = Schema.infer(frame)
    schema = Schema(tuple(_bounded(column, bounds) for column in found.private))
    if schema.learned:
        warnings.warn(
            f"Bounds or categories of {', '.join(schema.learned[:10])} were read off the training rows, so "
            "nothing is proved. Give a `schema` with what is known about them.",
            PrivacyLeakWarning,
            stacklevel=4,
        )
    return Encoding(schema)


def check_bounds(frame: pa.Table, bounds: Any) -> None:
    """Bounds by name must be those of columns; a pair must be two numbers, for not every column has bounds."""
    if isinstance(bounds, Mapping):
        for name in bounds:
            if name not in frame.column_names:
                raise UsageError(f"The 'bounds' parameter names {name!r}.{nearest(name, frame.column_names)}")
    elif bounds is not None and any(np.ndim(side) for side in bounds):
        raise UsageError(
            "For a DataFrame with columns that are not numbers, give bounds by name ({'age': (0, 120)}), or a schema."
        )


def _bounded(column: Column, bounds: Any) -> Column:
    """The column with the bounds that were given for it; categories have none."""
    mine = bounds.get(column.name) if isinstance(bounds, Mapping) else bounds
    if mine is None or column.kind not in ("numeric", "integer"):
        return column
    low, high = (float(side) for side in mine)
    if not low <= high:
        raise UsageError(f"The bounds of column {column.name!r} must be (low, high) with low <= high.")
    return replace(column, kind="numeric", low=low, high=high, source="public", reason=GIVEN)
