"""Numbers as categories: where they are cut, and what the intervals are called."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import SchemaError
from sfumato.table.arrays import is_number, is_text, numbers, parsed_numbers, text


def checked_edges(found: Any, what: str) -> tuple[float, ...]:
    """Edges as increasing finite numbers; a `SchemaError` says what is wrong with those of `what`."""
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise SchemaError(f"The edges of {what} must be a list of numbers: where it is cut into intervals.")
    try:
        edges = tuple(math.nan if isinstance(edge, bool | str) else float(edge) for edge in found)
    except (TypeError, ValueError, OverflowError):
        edges = (math.nan,)
    if not all(math.isfinite(edge) for edge in edges):
        raise SchemaError(f"The edges of {what} must be numbers.")
    if any(a >= b for a, b in itertools.pairwise(edges)):
        raise SchemaError(f"The edges of {what} must increase.")
    return edges


def interval_names(edges: Sequence[float]) -> tuple[str, ...]:
    """What the intervals are called; an edge belongs to the upper one.

    >>> interval_names((5, 7.5))
    ('below 5', '5 to 7.5', '7.5 or more')
    """
    written = [f"{edge:.15g}" for edge in edges]  # 1500000, not 1.5e+06
    middle = [f"{low} to {high}" for low, high in itertools.pairwise(written)]
    return (f"below {written[0]}", *middle, f"{written[-1]} or more")


def cut(array: pa.Array, edges: Sequence[float], categories: Sequence[str], name: str) -> pa.Array:
    """Cells as names of intervals: numbers are cut, names of intervals (of a table that was cut before) stay."""
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), pa.string())
    if is_text(array.type):
        words = text(array, name)
        found = parsed_numbers(words)
    elif is_number(array.type):
        words = pa.nulls(len(array), pa.string())
        found = array.cast(pa.float64(), safe=False)
    else:
        raise SchemaError(f"Column {name!r} has edges, so it must hold numbers. The table's type is {array.type}.")
    found = pc.if_else(pc.is_nan(found), None, found)
    codes = np.searchsorted(np.asarray(edges), numbers(found, name).numbers, side="right")
    names = pa.array(categories, pa.string()).take(pa.array(codes))
    return pc.if_else(found.is_valid(), names, words)
