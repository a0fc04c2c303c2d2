"""Where rows lie: a common centre and scale, operands for matrix products, and the error that these make.

Squared Euclidean distances between many queries a and rows b come from one matrix product,

    ||a - b||^2 = [-2a, 1, ||a||^2] . [b, ||b||^2, 1],

which is fast but cancels when a and b are close together and far from the origin. Hence three rules: all
points are centred first, every product is used with a proven bound on its error (`error_bound`), and what lies
within that bound of a decision is computed again from differences (`pair_squares`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.core.array_types import Codes, Floats

Real = npt.NDArray[Any]
"""A matrix of single or double precision."""

PAIR_CHUNK = 1 << 15
"""Pairs whose differences are held at once: 13 MB at 50 columns."""


@dataclass(frozen=True)
class Frame:
    """The centre of some rows, and a bound on how far from it (in Euclidean norm) they lie."""

    centre: Floats
    reach: float

    @classmethod
    def of(cls, rows: Floats) -> Frame:
        """Frame of the given rows; refuses what is not finite."""
        if rows.ndim != 2 or not rows.shape[0] or not rows.shape[1]:
            raise ValueError(f"Rows must be a matrix with at least one row and one column. Got shape {rows.shape}.")
        centre = rows.mean(axis=0)  # it need not be exact, only near the middle
        return cls(centre, _reach(rows, centre, "Rows"))

    def scale_for(self, queries: Floats) -> float:
        """A power of two that brings rows and queries into the unit ball, so that no square over- or underflows."""
        reach = max(self.reach, _reach(queries, self.centre, "Queries"))
        return float(2.0 ** -np.clip(np.ceil(np.log2(reach)), -500, 500)) if reach > 0 else 1.0

    def operand(self, points: Floats, scale: float, out: Floats | None = None) -> Floats:
        """[b, ||b||^2, 1] for every point b = scale (x - centre); the scaling is exact (a power of two)."""
        n, d = points.shape
        made = np.empty((n, d + 2)) if out is None else out
        inside = made[:, :d]
        np.subtract(points, self.centre, out=inside)
        inside *= scale
        np.einsum("ij,ij->i", inside, inside, out=made[:, d])
        made[:, d + 1] = 1.0
        return made


def as_query(operand: Floats) -> Floats:
    """[-2a, 1, ||a||^2] from [a, ||a||^2, 1]."""
    d = operand.shape[1] - 2
    made = np.empty_like(operand)
    np.multiply(operand[:, :d], -2.0, out=made[:, :d])
    made[:, d] = 1.0
    made[:, d + 1] = operand[:, d]
    return made


def error_bound(columns: int, query_square: float, row_square: float, dtype: npt.DTypeLike) -> float:
    r"""Largest error of a squared distance that was computed by a product of operands in the given precision.

    Let u be the unit roundoff (2^-24 single, 2^-53 double), d the number of columns and
    S = (max ||a|| + max ||b||)^2. To first order in u, and whatever the order of summation:

    - the product of d + 2 terms errs by at most (d + 2) u sum |a_i b_i| <= (d + 2) u S;
    - the stored norms err by at most (d + 2) u (||a||^2 + ||b||^2) <= (d + 2) u S;
    - centring, and rounding to single precision, move every coordinate by a factor within 1 +- 2u, and so
      the squared distance by at most 4 u S;
    - the difference formula it is compared with errs by at most (d + 2) u ||a - b||^2 <= (d + 2) u S.

    The sum is (3d + 10) u S; the bound returned, 4 (d + 8) u S, leaves a quarter for the terms in u^2 as long
    as d u < 1/100, and a last term for underflow.
    """
    unit, tiny = (2.0**-24, 2.0**-126) if dtype == np.float32 else (2.0**-53, 2.0**-1022)
    reach = (math.sqrt(query_square) + math.sqrt(row_square)) ** 2
    return 4 * (columns + 8) * (unit * reach + tiny)


def pair_squares(queries: Floats, rows: Floats, query_index: Codes, row_index: Codes) -> Floats:
    """Squared distance of each named pair from differences: exactly 0 for equal rows, and free of cancellation."""
    squares = np.empty(len(query_index))
    for start in range(0, len(query_index), PAIR_CHUNK):
        part = slice(start, start + PAIR_CHUNK)
        difference = queries[query_index[part]]
        difference -= rows[row_index[part]]
        np.einsum("ij,ij->i", difference, difference, out=squares[part])
    return squares


def _reach(points: Floats, centre: Floats, what: str) -> float:
    """Bound on the distance of any point to the centre: sqrt(d) times the largest deviation in one column."""
    if not len(points):
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        deviation = max(float((points.max(axis=0) - centre).max()), float((centre - points.min(axis=0)).max()))
    if not np.isfinite(deviation):
        raise ValueError(f"{what} contain NaN, infinity or values too large to square. Remove or encode them first.")
    return deviation * float(np.sqrt(points.shape[1]))
