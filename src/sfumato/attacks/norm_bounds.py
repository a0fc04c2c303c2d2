"""Lemmas 4.1 and 4.2 of [kernel-resampling]: lengths and values bounded from below by one leaked length.

Both rest on Cauchy-Schwarz, a'b <= |a| |b|, for the Euclidean norm: the paper's "any l_p norm" is wrong. They hold
surely for a map that keeps inner products (a rotation about 0), and only on average for a random projection. A leaked
length that is estimated too low breaks them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Matrix
from sfumato.errors import UsageError


def column_norm_bound(first: Matrix, second: Matrix, column: int, norm: float) -> Matrix:
    """Lemma 4.1 as published: a lower bound gamma_1 (Eq. 21) of the length of every column of one site's table.

    Two sites hold x_1 and x_2 (N x d, as many rows each) and release y_l = R x_l with the same R (K x N), which mixes
    *records*. From the leaked `norm` of one column of x_2: |x_1i| >= |y_1i' y_2j| / |x_2j|. The larger the stronger.
    """
    if first.shape[0] != second.shape[0]:
        raise UsageError("Both sites' releases must have the same number of rows: one R with K rows made both.")
    return _bounded(np.abs(first.T @ second[:, column]), norm)


def row_norm_bound(release: Matrix, row: int, norm: float) -> Matrix:
    """The row version of Lemma 4.1, for maps z = R x that mix *columns*: a lower bound of every row's length.

    From the leaked length of one row: |x_a| >= |z_a' z_b| / |x_b|. It needs the centre 0, and no second site.
    """
    return _bounded(np.abs(release @ release[row]), norm)


def value_bound(norm_bound: ArrayLike, others: ArrayLike) -> Matrix:
    """Lemma 4.2: a lower bound gamma_2 of one value's size when all `others` of its column (or row) are known.

    |x_q| >= sqrt(gamma_1^2 - sum of squares of the others); 0 where that is not positive, and then it says nothing.
    `others` is t x m, one line for each bound.
    """
    left = np.asarray(norm_bound, dtype=np.float64) ** 2 - (np.asarray(others, dtype=np.float64) ** 2).sum(axis=-1)
    return np.asarray(np.sqrt(np.maximum(left, 0.0)))


def _bounded(products: Matrix, norm: float) -> Matrix:
    if norm < 0:
        raise UsageError(f"A length cannot be negative. Got {norm} instead.")
    return np.asarray(products / norm if norm > 0 else np.zeros_like(products))
