"""A fitted model as plain JSON and back: all of it is noisy or public, so that it may be shared like the release.

A model from outside is checked in every part before rows are drawn from it: nothing in it is run, and nothing in it
can reach beyond its own tables.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import CardError
from sfumato.mechanisms.central.column_codes import Bins, FineColumn
from sfumato.mechanisms.central.drawing import DrawnModel, ModelColumn, Node
from sfumato.table import Encoding

FORMAT, VERSION = "sfumato-nobodys-model", 2
READABLE = (1, VERSION)
"""Version 1 had no column with two parents."""
DAMAGED = "The model of the release was edited or is damaged. Take the folder as `sfumato sanitize` wrote it."
MOST_ROWS = 10**12
MOST_PARENTS = 2


def model_as_dict(model: DrawnModel) -> dict[str, Any]:
    """Plain lists and numbers."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "rows": model.rows,
        "classes": [float(size) for size in model.sizes],
        "columns": [
            {
                "name": one.fine.group.column.name,
                "bins": one.bins.of.tolist(),
                "shares": one.shares.tolist(),
                "coarse": None if one.coarse is None else one.coarse.of.tolist(),
                "rough": None if one.rough is None else one.rough.of.tolist(),
            }
            for one in model.columns
        ],
        "order": [[node.column, list(node.parents)] for node in model.nodes],
        "tables": {str(column): table.tolist() for column, table in sorted(model.tables.items())},
    }


def model_text(found: Mapping[str, Any]) -> str:
    """As it is written to a file, and as its digest is taken."""
    return json.dumps(found, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def model_digest(found: Mapping[str, Any]) -> str:
    """What a card says of its model: releases with the same one were drawn from the same measurements."""
    return hashlib.sha256(model_text(found).encode()).hexdigest()


def model_from_dict(found: Any, encoding: Encoding) -> DrawnModel:
    """The inverse of `model_as_dict`, for the columns of a card."""
    try:
        return _read(found, encoding)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError):
        raise CardError(DAMAGED) from None


def _read(found: Any, encoding: Encoding) -> DrawnModel:
    _need(found["format"] == FORMAT and found["version"] in READABLE)
    rows, sizes = found["rows"], _floats(found["classes"], 1)
    _need(type(rows) is int and 1 <= rows <= MOST_ROWS)
    _need(len(sizes) in (1, max(1, len(encoding.classes))) and math.isfinite(sizes.sum()) and sizes.sum() > 0)
    _need(len(found["columns"]) == len(encoding.groups))
    columns = [
        _column(FineColumn.of(group), one, len(sizes))
        for group, one in zip(encoding.groups, found["columns"], strict=True)
    ]
    nodes = [Node(int(column), tuple(map(int, parents))) for column, parents in found["order"]]
    seen: set[int] = set()
    for node in nodes:
        _need(0 <= node.column < len(columns) and node.column not in seen and seen.issuperset(node.parents))
        seen.add(node.column)
    _need(len(seen) == len(columns))
    tables = {}
    for node in nodes:
        if node.parents:
            _need(len(node.parents) <= MOST_PARENTS and len(set(node.parents)) == len(node.parents))
            sizes_of = [columns[parent].as_parent(place).count for place, parent in enumerate(node.parents)]
            sizes_of.append(columns[node.column].joint.count)
            table = _floats(found["tables"][str(node.column)], 1 + len(sizes_of))
            _need(table.shape == (len(sizes), *sizes_of))
            tables[node.column] = table
    return DrawnModel(encoding, len(sizes), rows, sizes, columns, nodes, tables)


def _column(fine: FineColumn, found: Mapping[str, Any], classes: int) -> ModelColumn:
    _need(found["name"] == fine.group.column.name)
    bins = _bins(found["bins"], fine.size)
    shares = _floats(found["shares"], 2)
    _need(shares.shape == (classes, bins.count) and bool(np.allclose(shares.sum(axis=1), 1.0)))
    coarse = None if found["coarse"] is None else _bins(found["coarse"], bins.count)
    given = found.get("rough")
    rough = None if given is None else _bins(given, bins.count if coarse is None else coarse.count)
    return ModelColumn(fine, bins, shares, coarse, rough)


def _bins(found: Any, size: int) -> Bins:
    """Every code has a bin, and every bin has a code."""
    of: Codes = np.asarray(found)
    _need(of.shape == (size,) and of.dtype == np.int64)
    _need(bool((np.unique(of) == np.arange(of.max() + 1)).all()))
    return Bins(of, int(of.max()) + 1)


def _floats(found: Any, dimensions: int) -> Floats:
    values: Floats = np.asarray(found, dtype=np.float64)
    _need(values.ndim == dimensions and bool(np.isfinite(values).all()) and bool((values >= 0).all()))
    return values


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError("model")
