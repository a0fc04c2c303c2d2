"""How far two groupings of the same rows agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Matrix


def adjusted_rand(first: ArrayLike, second: ArrayLike) -> float:
    """Adjusted Rand index [Hubert & Arabie 1985] of two groupings: 1 for the same, about 0 for chance."""
    a, b = (np.unique(np.asarray(one), return_inverse=True)[1].ravel() for one in (first, second))
    table = np.zeros((int(a.max(initial=0)) + 1, int(b.max(initial=0)) + 1))
    np.add.at(table, (a, b), 1.0)
    return adjusted_rand_of(table)


def adjusted_rand_of(table: Matrix) -> float:
    """The same from the table of how many rows both groupings put where; counts may be expected ones."""

    def pairs(counts: Matrix) -> float:
        return float((counts * (counts - 1.0)).sum()) / 2.0

    together, rows, columns = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    total = table.sum() * (table.sum() - 1.0) / 2.0
    expected = rows * columns / total if total else 0.0
    most = (rows + columns) / 2.0
    return 1.0 if most == expected else float((together - expected) / (most - expected))
