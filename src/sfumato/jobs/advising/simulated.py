"""Tables of the same shape as a private one, made from its public schema alone.

Nothing of the private rows goes into them, so that a choice made on them says nothing about anybody. Classes lie
`APART` standard deviations from each other, as far as learners of tables usually find them; a few columns carry most of
it, columns share common factors, and a number's spread is a seventh of its declared range.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.array_types import Codes, Floats
from sfumato.table import Column, Schema
from sfumato.table.column import iso_date

APART = 3.0
FACTORS = 3
COMMON = 0.5
"""Share of a column's variance that it has in common with others."""
SPREAD = 1.0 / 7.0
EMPTY = 0.05


def simulate(schema: Schema, rows: int, seed: int) -> pa.Table:
    """A table of `rows` rows of the schema's private columns and its label."""
    rng = np.random.default_rng(seed)
    label = schema.label
    assert label is not None
    assert label.categories is not None
    classes = label.categories
    codes = _classes(len(classes), rows, rng)
    latent = _latent(len(schema.private), len(classes), codes, rng)
    columns: dict[str, pa.Array] = {}
    for place, column in enumerate(schema.private):
        columns[column.name] = _cells(column, latent[:, place], rng)
    columns[label.name] = pa.array(np.array(classes, dtype=object)[codes], type=pa.string())
    return pa.table(columns)


def _classes(count: int, rows: int, rng: np.random.Generator) -> Codes:
    """Codes with uneven shares; every class has two rows, as far as there are enough."""
    shares = 1.0 / np.sqrt(1.0 + np.arange(count))
    codes = rng.choice(count, size=rows, p=shares / shares.sum())
    sure = np.tile(np.arange(count), 2)[:rows]
    codes[: len(sure)] = sure
    found: Codes = rng.permutation(codes)
    return found


def _latent(columns: int, classes: int, codes: Codes, rng: np.random.Generator) -> Floats:
    """Normal columns of variance about 1 with common factors, moved by the class."""
    weights = rng.exponential(size=columns)
    directions = rng.normal(size=(classes, columns)) * weights
    directions *= APART / np.sqrt(2.0) / np.linalg.norm(directions, axis=1, keepdims=True)
    loadings = rng.normal(size=(FACTORS, columns))
    loadings *= np.sqrt(COMMON) / np.linalg.norm(loadings, axis=0)
    factors = rng.normal(size=(len(codes), FACTORS))
    own = rng.normal(size=(len(codes), columns)) * np.sqrt(1.0 - COMMON)
    return np.asarray(directions[codes] + factors @ loadings + own)


def _cells(column: Column, latent: Floats, rng: np.random.Generator) -> pa.Array:
    empty = rng.random(len(latent)) < EMPTY if column.missing else np.zeros(len(latent), dtype=bool)
    if column.edges is not None:
        edges = np.asarray(column.edges)
        spread = float(edges[-1] - edges[0]) or 1.0
        return pa.array(np.where(empty, np.nan, edges.mean() + latent * spread / 2.0), from_pandas=True)
    if column.categories is not None:
        count = len(column.categories)
        cuts = np.sort(rng.normal(size=count - 1))
        names = np.array(column.categories, dtype=object)
        order = np.arange(count) if column.kind == "ordinal" else rng.permutation(count)
        return pa.array(names[order[np.searchsorted(cuts, latent)]], mask=empty, type=pa.string())
    low, high = column.bounds
    middle = low + (high - low) * rng.uniform(0.3, 0.7)
    values = np.clip(middle + latent * (high - low) * SPREAD, low, high)
    if column.kind == "date":
        return pa.array([None if gone else iso_date(round(day)) for day, gone in zip(values, empty, strict=True)])
    if column.kind == "integer":
        return pa.array(np.rint(values).astype(np.int64), mask=empty)
    return pa.array(values, mask=empty)
