"""From noisy counts to probabilities: post-processing, which costs nothing and never sees the table."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Floats

ROUNDS = 30
"""Of raking. Margins that fit after fewer end it."""


def on_simplex(values: Floats, total: float) -> Floats:
    """The nearest array without negative entries that sums to `total` (Euclidean projection)."""
    flat = np.sort(values.ravel())[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, flat.size + 1)
    kept = np.flatnonzero(flat > excess)
    level = excess[kept[-1]] if kept.size else (flat.sum() - total) / flat.size
    return np.asarray(np.maximum(values - level, 0.0))


def class_sizes(columns: list[Floats], rows: float, spread_rows: float, spread: float) -> Floats:
    """Rows of every class, by the margins of all noisy column tables and the noisy number of rows."""
    cells = np.array([table.shape[1] for table in columns], dtype=np.float64)
    weights = 1.0 / (cells * spread**2)  # a class's margin of a table sums so many noisy cells
    sizes = np.einsum("t,tc->c", weights / weights.sum(), np.array([table.sum(axis=1) for table in columns]))
    variance, of_rows = len(sizes) / weights.sum(), spread_rows**2
    total = (rows * variance + sizes.sum() * of_rows) / (variance + of_rows)
    return on_simplex(sizes, max(total, 1.0))


def column_shares(table: Floats, sizes: Floats, spread: float) -> Floats:
    """P(bin | class) of one column: a class's counts, shrunk towards those of all classes where noise hides them."""
    pooled = on_simplex(table.sum(axis=0), max(sizes.sum(), 1.0))
    pooled = pooled / pooled.sum()
    found = np.empty_like(table, dtype=np.float64)
    for code, size in enumerate(sizes):
        expected = size * pooled
        found[code] = on_simplex(expected + shrunk(table[code] - expected, spread), max(size, 1e-9))
    return _shares(found, pooled)


def pair_shares(table: Floats, first: Floats, second: Floats, sizes: Floats, spread: float) -> Floats:
    """P(b | class, a): residuals from independence, shrunk, then raked to the margins of both columns."""
    found = np.empty(table.shape)
    for code, size in enumerate(sizes):
        rows, columns = size * first[code], size * second[code]
        expected = np.outer(rows, columns) / max(size, 1e-9)
        cells = on_simplex(expected + shrunk(table[code] - expected, spread), max(size, 1e-9))
        found[code] = raked(cells, rows, columns)
    return _shares(found, second[:, None, :])


def shrunk(residual: Floats, spread: float) -> Floats:
    """James & Stein's estimate: as much of the residual as is not noise."""
    energy = float((residual**2).sum())
    noise = max(residual.size - 2, 0) * spread**2
    return residual * max(0.0, 1.0 - noise / energy) if energy > 0 else residual


def raked(cells: Floats, rows: Floats, columns: Floats) -> Floats:
    """Cells in proportion, with these margins."""
    cells = cells + 1e-9
    for _ in range(ROUNDS):
        cells *= (rows / np.maximum(cells.sum(axis=1), 1e-12))[:, None]
        cells *= (columns / np.maximum(cells.sum(axis=0), 1e-12))[None, :]
        if np.abs(cells.sum(axis=1) - rows).sum() <= 1e-6 * max(rows.sum(), 1e-9):
            break
    return cells


def _shares(found: Floats, instead: Floats) -> Floats:
    """Rows that sum to one along the last axis; `instead` where nothing is left."""
    total = found.sum(axis=-1, keepdims=True)
    return np.where(total > 1e-12, found / np.maximum(total, 1e-12), np.broadcast_to(instead, found.shape))
