"""A linear model between plain columns, from noisy ones: errors in variables, corrected by their known moments.

Least squares on noisy columns is biased towards 0. Here the noise is taken off the second moments first [Fuller 1987]:
b = (S_xx - N_xx)^-1 (S_xy - N_xy). Moments are sums over rows, so intervals are by the jackknife over groups of rows,
which allows for everything that is estimated, the noise of factors and answers too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from sfumato.channels import Channel, NotApplicableError, apart
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import CardError, UsageError
from sfumato.learn.mining.seen import Part, Piece, pieces_of

# Released entries made unbiased, and what noise adds to their products.
#
# w has E[w | x] = x in the encoding of plain rows, and `extra` is an unbiased estimate, row by row, of what noise adds
# to the square: E[w^2 - extra | x] = x^2. It is the noise's variance where noise is added. Where (z - o) = f (x - o),
# it is (w - o)^2 r / (1 + r) with r = Var f / (E f)^2. A one-hot entry is its own square, so extra = w^2 - w, and
# products of two slots of one column are 0. Noise of different columns is independent and adds nothing to their
# products, unless they share it (`channels.mixed`): then its covariance is taken off.


@dataclass(frozen=True, eq=False)
class Unbiased:
    """Encoded source columns: entries w (n x d, NaN where not reported), and `products` (d x d, or n x d on the
    diagonal): what is to be taken off w w'."""

    W: Matrix
    diagonal: Matrix
    together: Matrix
    """Constant, d x d: of maps that mix columns, whose noise is mixed with them. 0 elsewhere."""
    onehot: tuple[slice, ...]


def unbiased(part: Part, *, own_space: bool = False) -> Unbiased:
    """Of one part; refused where a card does not say enough. `own_space`: components stay as they are."""
    recipe = part.recipe
    pieces = pieces_of(recipe, part.channels)
    W, extra = np.empty_like(part.Z), np.zeros_like(part.Z)
    for piece in pieces:
        if piece.is_category:
            _answers(piece, part.Z, W, extra)
        elif piece.group is not None and piece.group.has_indicator:
            raise UsageError(
                f"Not applicable: cells of column {piece.name!r} can be missing, and a linear model of numbers that "
                "may be missing is not defined for everybody."
            )
        else:
            _numbers(piece, part.Z, W, extra)
    onehot = tuple(piece.place for piece in pieces if piece.is_category)
    if recipe.is_columnwise:
        shared = apart(part.channels)
        together = np.zeros((W.shape[1],) * 2) if shared is None else shared.between(W.shape[1])
        return Unbiased(W, extra, together, onehot)
    if own_space:
        return Unbiased(W, extra, np.zeros((W.shape[1],) * 2), ())
    return _mapped_back(part, W, extra)


def _mapped_back(part: Part, W: Matrix, extra: Matrix) -> Unbiased:
    affine = part.recipe.map.affine()
    if affine is None:
        raise CardError(
            "Not applicable: the map of the release is a secret key, so no source column can be told from it."
        )
    matrix, offset = affine
    if np.linalg.matrix_rank(matrix, tol=1e-9) < matrix.shape[1]:
        raise CardError(
            f"Not applicable: the release keeps {len(matrix)} components of {matrix.shape[1]} encoded columns, so what "
            "source columns do is not all in it. Release with all components, or with a method that keeps columns."
        )
    back = np.linalg.pinv(matrix)
    noise = np.diag(extra.mean(axis=0))
    plain = (W - offset) @ back.T
    onehot = tuple(group.slice for group in part.recipe.encoding.groups if group.is_onehot)
    return Unbiased(plain, np.zeros_like(plain), np.asarray(back @ noise @ back.T), onehot if not noise.any() else ())


def _numbers(piece: Piece, Z: Matrix, W: Matrix, extra: Matrix) -> None:
    channel: Channel = piece.channel
    try:
        slope, offset = channel.mean_line()
    except NotApplicableError as error:
        raise CardError(f"Not applicable: column {piece.name!r} was {error}.") from None
    added, factor = channel.added_moments[0], channel.factor
    if not math.isfinite(added) or (factor is not None and not math.isfinite(factor.variance)):
        raise CardError(f"Not applicable: the noise of column {piece.name!r} has no variance that could be taken out.")
    W[:, piece.place] = (Z[:, piece.place] - offset) / slope
    if factor is None:
        extra[:, piece.place] = added / slope**2
    else:
        relative = factor.variance / factor.mean**2
        extra[:, piece.place] = (W[:, piece.place] - factor.origin) ** 2 * relative / (1.0 + relative)


def _answers(piece: Piece, Z: Matrix, W: Matrix, extra: Matrix) -> None:
    slots = piece.place.stop - piece.place.start
    keep = piece.channel.kept
    other = (1.0 - keep) / max(1, slots - 1)
    if slots > 1 and abs(keep - other) < 1e-9:
        raise UsageError(f"The answers of column {piece.name!r} tell nothing of the truth. Leave it out.")
    w = (Z[:, piece.place] - other) / (keep - other) if slots > 1 else Z[:, piece.place]
    W[:, piece.place], extra[:, piece.place] = w, w**2 - w


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
            plain = np.where(apart, 0.0, seen)  # no row is in two slots of one column
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
