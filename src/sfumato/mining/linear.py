"""A linear model between plain columns, from noisy ones: errors in variables, corrected by their known moments.

Least squares on noisy columns is biased towards 0. Here the noise is taken off the second moments first [Fuller 1987]:
b = (S_xx - N_xx)^-1 (S_xy - N_xy). Moments are sums over rows, so intervals are by the jackknife over groups of rows,
which allows for everything that is estimated, the noise of factors and answers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sfumato.array_types import Codes, Floats, Matrix
from sfumato.errors import UsageError
from sfumato.mining.unbiased import Unbiased

GROUPS = 100
ROWS_A_COLUMN = 10
WEAK = 3.0
"""A direction whose plain variance is below so many standard errors is weakly known."""
ROUNDING = 1e-12
"""A direction whose variance is less than this part of the largest is there by rounding alone."""


@dataclass(frozen=True, eq=False)
class Linear:
    """y = intercept + x coefficients, in encoded units; the first entry is the intercept."""

    coefficients: Floats
    errors: Floats
    low: Floats
    high: Floats
    naive: Floats
    """Least squares on the released values as they are."""
    explained: float
    """The share of the plain target's variance that plain columns explain."""
    firmness: float
    """The least plain variance of any direction of the columns, in standard errors of it."""


def fit_linear(
    parts: Sequence[Unbiased], columns: Codes, target: int, *, confidence: float = 0.95, seed: int = 0
) -> Linear:
    """Of encoded columns; `columns` are those of the matrix that explain."""
    rows = sum(len(part.W) for part in parts)
    used = np.append(columns, target)
    if rows < ROWS_A_COLUMN * len(used):
        raise UsageError(
            f"{rows:,} released rows are too few for {len(columns)} columns: {ROWS_A_COLUMN} a column are needed."
        )
    groups = min(GROUPS, rows // 5)
    dealt = np.random.default_rng(seed).permutation(rows) % groups
    sums, counts, noise = _moments(parts, used, dealt, groups)
    whole = _solve(sums.sum(axis=0), counts.sum(axis=0))
    without = [_solve(sums.sum(axis=0) - s, counts.sum(axis=0) - c) for s, c in zip(sums, counts, strict=True)]
    spread, direction = np.linalg.eigh(whole.covariance)
    if spread[0] <= 0:
        raise UsageError(
            "The noise is too strong for these columns: taken out, it leaves no variance in some direction of them, so "
            "their coefficients cannot be told. Use fewer columns, more rows or weaker noise."
        )
    least = np.array([direction[:, 0] @ one.covariance @ direction[:, 0] for one in without])
    scatter = float(np.sqrt((groups - 1) * least.var()))
    again = np.array([one.coefficients for one in without])
    errors = np.sqrt((groups - 1) * again.var(axis=0))
    half = float(stats.t.ppf(0.5 + confidence / 2, groups - 1)) * errors
    naive = _solve(sums.sum(axis=0) + noise, counts.sum(axis=0)).coefficients
    b = whole.coefficients
    firmness = float(spread[0]) / scatter if scatter > 0 else np.inf
    return Linear(b, errors, b - half, b + half, naive, whole.explained, firmness)


@dataclass(frozen=True, eq=False)
class _Solved:
    coefficients: Floats
    covariance: Matrix
    explained: float


def _moments(parts: Sequence[Unbiased], used: Codes, dealt: Codes, groups: int) -> tuple[Matrix, Matrix, Matrix]:
    """Sums of plain (1, x, y) (1, x, y)' by group of rows, of rows that report both, how many these are, and all that
    was taken off."""
    size = len(used) + 1
    sums, counts = np.zeros((groups, size, size)), np.zeros((groups, size, size))
    removed, first = np.zeros((size, size)), 0
    for part in parts:
        W, extra = part.W[:, used], part.diagonal[:, used]
        there = ~np.isnan(W)
        known = np.column_stack([np.ones(len(W)), np.where(there, W, 0.0)])
        reported = np.column_stack([np.ones(len(W)), there]).astype(np.float64)
        apart = _apart(part, used)
        mine = dealt[first : first + len(W)]
        first += len(W)
        for group in range(groups):
            rows = mine == group
            both = reported[rows].T @ reported[rows]
            seen = known[rows].T @ known[rows]
            plain = np.where(apart, 0.0, seen)  # nobody is in two slots of one column
            plain[1:, 1:] -= np.diag(np.where(there[rows], extra[rows], 0.0).sum(axis=0))
            plain[1:, 1:] -= part.together[np.ix_(used, used)] * both[1:, 1:]
            sums[group] += plain
            counts[group] += both
            removed += seen - plain
    return sums, counts, removed


def _apart(part: Unbiased, used: Codes) -> Matrix:
    """Which pairs of entries are different slots of one column, whose product is 0 for everybody."""
    column = np.arange(part.W.shape[1]) * -1 - 1
    for number, place in enumerate(part.onehot):
        column[place] = number
    own = np.concatenate([[-(part.W.shape[1] + 2)], column[used]])
    return np.asarray((own[:, None] == own[None]) & ~np.eye(len(own), dtype=bool))


def _solve(sums: Matrix, counts: Matrix) -> _Solved:
    if not (counts > 0).all():
        raise UsageError("Not applicable: no row reports two of the columns together.")
    moments = sums / counts
    mean = moments[0, 1:]
    covariance = moments[1:, 1:] - np.outer(mean, mean)
    inside, cross, total = covariance[:-1, :-1], covariance[:-1, -1], covariance[-1, -1]
    if np.linalg.matrix_rank(inside, tol=ROUNDING * np.abs(inside).max(), hermitian=True) < len(inside):
        raise UsageError("Some columns are a sum of others: leave one of them out.")
    slopes = np.linalg.solve(inside, cross)
    intercept = mean[-1] - mean[:-1] @ slopes
    explained = float(np.clip(cross @ slopes / total, 0.0, 1.0)) if total > 0 else float("nan")
    return _Solved(np.concatenate([[intercept], slopes]), inside, explained)
