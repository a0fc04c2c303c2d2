"""Release rows of which some cells were not reported (NaN): what can be said of them without inventing the rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.core.array_types import Codes, Matrix
from sfumato.table.neighbours.nearest import nearest

BLOCK = 2_000_000
"""Pairs of rows whose distances are computed at a time."""


def patterns(Z: Matrix) -> Iterator[tuple[Codes, Codes]]:
    """Rows that report the same columns, and these columns; all rows and all columns where nothing is left out."""
    there = ~np.isnan(Z)
    if there.all():
        yield np.arange(len(Z)), np.arange(Z.shape[1])
        return
    found, group = np.unique(there, axis=0, return_inverse=True)
    for number, columns in enumerate(found):
        yield np.flatnonzero(group.reshape(-1) == number), np.flatnonzero(columns)


def reported_mean(Z: Matrix, otherwise: float = 0.5) -> Matrix:
    """Mean of every column over the rows that report it."""
    there = ~np.isnan(Z)
    if there.all():
        return np.asarray(Z.mean(axis=0))
    count = there.sum(axis=0)
    return np.where(count > 0, np.where(there, Z, 0.0).sum(axis=0) / np.maximum(count, 1), otherwise)


def nearest_reported(queries: Matrix, rows: Matrix, k: int = 1) -> tuple[Matrix, Codes]:
    """As `neighbours.nearest`, by the columns that both report; columns are in units of their noise.

    A column that one of them leaves out costs log(1 + u), where u is what two of them differ by on average, squared:
    less than a stranger's value costs and more than one's own, which is at 1 on average. It is where the likelihood
    ratio of "the same" to "anybody" is 1, for normal noise beside normal values. So no row comes near by saying little.
    """
    seen, other = ~np.isnan(queries), ~np.isnan(rows)
    if seen.all() and other.all():
        return nearest(np.ascontiguousarray(queries), np.ascontiguousarray(rows), k=k)
    usual = np.log1p(_spread(queries) + _spread(rows) + (reported_mean(queries) - reported_mean(rows)) ** 2)
    a, b = np.where(seen, queries, 0.0), np.where(other, rows, 0.0)
    distance, index = np.empty((len(a), k)), np.empty((len(a), k), dtype=np.int64)
    step = max(1, BLOCK // max(len(b), 1))
    for start in range(0, len(a), step):
        block = slice(start, min(start + step, len(a)))
        mine, there = a[block], seen[block].astype(np.float64)
        squares = (mine**2) @ other.T - 2.0 * mine @ b.T + there @ (b**2).T
        squares += usual.sum() - (there * usual) @ other.T
        index[block] = squares.argmin(axis=1)[:, None] if k == 1 else np.argsort(squares, axis=1, kind="stable")[:, :k]
        distance[block] = np.sqrt(np.maximum(np.take_along_axis(squares, index[block], axis=1), 0.0))
    return distance, index


def _spread(Z: Matrix) -> Matrix:
    """Variance of every column over the rows that report it."""
    return reported_mean((Z - reported_mean(Z)) ** 2, otherwise=0.0)
