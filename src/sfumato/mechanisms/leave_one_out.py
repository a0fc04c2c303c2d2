"""A bandwidth by leave-one-out likelihood: how probable is each row under the kernels of the others?

h_i = c h_i(Eq. 16), and c is what makes the mean of log f_{-j}(x_j) largest, with

    f_{-j}(x) = 1/(n-1) sum over k != j of prod_i K((x_i - x_ki) / h_i) / h_i.

With a matrix in the place of the h_i, rows are whitened by it first. K is Gaussian here whichever kernel is drawn
from, and the result is carried over to it: under a bounded kernel a row that lies apart has likelihood 0 for every h
that is of use. Of a large class a sample is enough: c is chosen for the sample's size, and Eq. 16 says how h falls with
the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import logsumexp

from sfumato.array_types import Codes, Matrix
from sfumato.mechanisms.bandwidth import reference_width
from sfumato.statistics import Statistics

CONSTANTS: Matrix = np.geomspace(0.05, 4.0, 41)
MOST_ROWS = 1500
"""Rows of a class that are held against each other: pairs grow with the square."""


class RowSample(Statistics):
    """Rows of every class, no more than `MOST_ROWS`: those with the lowest hash, so that blocks add up in any order."""

    def __init__(self, rows: Mapping[int, Matrix], width: int):
        super().__init__({}, width)
        self.rows = {code: _lowest(some) for code, some in rows.items()}

    @classmethod
    def among(cls, X: Matrix, codes: Codes) -> RowSample:
        """A sample of one block."""
        return cls({int(code): X[codes == code] for code in np.unique(codes)}, X.shape[1])

    def __add__(self, other: Statistics) -> RowSample:
        assert isinstance(other, RowSample)
        both = {code: [one.rows[code] for one in (self, other) if code in one.rows] for code in self.rows | other.rows}
        return RowSample({code: np.vstack(parts) for code, parts in both.items()}, self.width)


def _lowest(rows: Matrix) -> Matrix:
    mixed = np.full(len(rows), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in np.ascontiguousarray(rows.T):
        mixed = (mixed ^ (column + 0.0).view(np.uint64)) * np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
    return rows[np.argsort(mixed, kind="stable")[:MOST_ROWS]]


def best_constant(rows: Matrix | None, sigma: Matrix, block: Codes | None = None, root: Matrix | None = None) -> float:
    """c of the highest mean log-likelihood; 1, as in Eq. 16, where no two rows can be compared.

    `root`: B of the columns `block` that share noise; its rows are as long as their `sigma`.
    """
    if rows is None or len(rows) < 2 or not (sigma > 0).any():
        return 1.0
    if block is not None and root is not None:
        rows, sigma = rows.copy(), sigma.copy()
        rows[:, block] = np.linalg.solve(root, rows[:, block].T).T
        sigma[block] = 1.0
    return float(CONSTANTS[int(np.argmax(log_likelihoods(rows, sigma).mean(axis=0)))])


def log_likelihoods(rows: Matrix, sigma: Matrix) -> Matrix:
    """log f_{-j}(x_j) of every row for every one of `CONSTANTS`, up to what no bandwidth changes.

    `sigma` is 0 where a column is not smoothed.
    """
    scaled = rows[:, sigma > 0] / sigma[sigma > 0]
    squares = (scaled**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares[None, :] - 2 * scaled @ scaled.T, 0.0)
    np.fill_diagonal(distances, np.inf)
    columns = scaled.shape[1]
    width = reference_width(len(rows), columns)
    return np.column_stack(
        [logsumexp(-distances / (2 * (c * width) ** 2), axis=1) - columns * np.log(c * width) for c in CONSTANTS]
    )
