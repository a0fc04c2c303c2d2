"""Which row of a rotation stands for which column: the best order against naive inference [random-rotation, 4.3].

The naive adversary takes component j of the release for column j. Swapping rows of R changes whom he mistakes for whom
and nothing else, so the best order is an assignment problem over the matrix of all pairs, solved exactly in polynomial
time (the paper searches among d! orders).
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from sfumato.core.array_types import Codes, Flags, Matrix

GOALS = ("minimum", "average")


def vod_matrix(rotation: Matrix, covariance: Matrix, *, published: bool = False) -> Matrix:
    """V[i, j] = Var(r_i . x - x_j), from the covariance C of the columns alone [Eq. 5]; larger is safer.

        V[i, j] = r_i' C r_i - 2 r_i' C e_j + c_jj

    As `published`, V is largest where component i is *negatively* correlated with column j, so that the best order
    makes the release a mirror image of the table: whoever knows that a search was made turns the sign. The default
    takes the better of both signs, ``r_i' C r_i - 2 |r_i' C e_j| + c_jj``, and is symmetric under R -> -R.
    """
    shared = rotation @ covariance
    variances = np.einsum("ij,ij->i", shared, rotation)
    shared = shared if published else np.abs(shared)
    return np.asarray(np.maximum(variances[:, None] - 2 * shared + np.diag(covariance), 0.0))


def best_order(privacy: Matrix, goal: str = "minimum") -> Codes:
    """Row of the matrix for every column, so that the lowest (or average) chosen entry is as high as can be [Eq. 6].

    Of several orders with the same minimum the one with the highest average is taken.
    """
    if goal == "average":
        return by_column(*linear_sum_assignment(privacy, maximize=True))
    allowed = privacy >= bottleneck(privacy)
    return by_column(*linear_sum_assignment(np.where(allowed, -privacy, np.inf)))


def bottleneck(privacy: Matrix) -> float:
    """The highest minimum that any assignment of rows to columns reaches, exactly.

    A threshold t can be reached if the entries of at least t hold a perfect matching; it is searched for by halving
    among the sorted entries: O(log d) matchings of Hopcroft and Karp, O(d^2.5) each.
    """
    entries = np.unique(privacy)
    # No assignment beats the best entry of its worst row or column.
    most = min(privacy.max(axis=0).min(), privacy.max(axis=1).min())
    low, high = 0, int(np.searchsorted(entries, most))
    while low < high:
        middle = (low + high + 1) // 2
        if _has_perfect_matching(privacy >= entries[middle]):
            low = middle
        else:
            high = middle - 1
    return float(entries[low])


def _has_perfect_matching(allowed: Flags) -> bool:
    return bool((maximum_bipartite_matching(csr_matrix(allowed), perm_type="column") >= 0).all())


def by_column(rows: Codes, columns: Codes) -> Codes:
    """The row of every column, of pairs in any order."""
    order: Codes = np.empty(len(rows), dtype=np.int64)
    order[columns] = rows
    return order
