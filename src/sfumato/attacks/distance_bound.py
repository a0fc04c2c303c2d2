"""What kept distances give away: one value of a person from the others and the distance to a known person."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from sfumato.attacks.base import Abstain, Attack, Bounds, Guess, Knowledge, promised
from sfumato.core.accepted import Flag, Positive, Whole
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import UsageError
from sfumato.mechanisms.parameters import parameter
from sfumato.table import Group


# Lemmas 4.1 and 4.2 of [kernel-resampling]: lengths and values bounded from below by one leaked length.
#
# Both rest on Cauchy-Schwarz, a'b <= |a| |b|, for the Euclidean norm: the paper's "any l_p norm" is wrong. They hold
# surely for a map that keeps inner products (a rotation about 0), and only on average for a random projection. A leaked
# length that is estimated too low breaks them.
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


STEP = 1 / 400
"""Grid on which the values of a number are tried."""
FOURTH = 3.5
"""Variance of (e_a - e_b)^2 over the squared variance of e_a - e_b, under Laplace noise (2 under normal noise)."""


class DistanceBound(Attack):
    """The adversary knows all about a person but one value, the person's released row, and a few leaked records.

    The lemmas of [kernel-resampling, 4] bound the missing value from below by one leaked length (`lemma=True`; row
    version, which needs the centre 0). What they rest on gives more: a release that keeps distances tells
    |x_a - x_b|^2 = |z_a - z_b|^2 for every leaked row b, so that the missing value v satisfies
    |v - x_bq|^2 = |z_a - z_b|^2 - (what the known values make up of it), whatever the centre. Two values solve
    this for one leaked row and, as a rule, one for two; categories need more.

    Noise of covariance N adds 2 tr N to a squared distance on average, a projection keeps it only on average (relative
    variance 2/s, which the leaked rows betray): values within `sureness` standard deviations count as possible, and
    the guess is the interval that they span. Slots that were answered by randomized response, and numbers that were
    multiplied or otherwise not kept at their distances, are left out.
    """

    name = "distance-bound"
    published = MappingProxyType({"lemma": True})
    knows = frozenset({"release", "known_rows", "targets", "images", "secret"})
    helps = frozenset({"noise", "noise_covariance"})
    leaked: int = parameter(Whole(1, 10_000), "Leaked rows that are used.", default=10)
    lemma: bool = parameter(Flag(), "Whether to use the paper's lemma instead.", default=False)
    sureness: float = parameter(
        Positive(100.0), "Standard deviations within which a value counts as possible.", default=4.0
    )

    def _lemma(self, known: Knowledge) -> Guess:
        secret, pairs = promised(known.secret), promised(known.known_rows)
        group = known.encoding.groups[secret]
        if group.is_onehot or group.has_indicator:
            return Abstain("the lemma applies to numbers only")
        others = np.delete(promised(known.targets), group.start, axis=1)
        low = np.zeros(len(others))
        for x, row in zip(pairs.X[: self.leaked], pairs.index[: self.leaked], strict=True):
            gamma = row_norm_bound(known.release, int(row), float(np.linalg.norm(x)))[known.images]
            low = np.maximum(low, value_bound(gamma, others))
        if not low.any():
            return Abstain("the bound says nothing of anyone: gamma is not positive")
        low = np.minimum(low, 1.0)[:, None]
        return Bounds(low, np.ones_like(low), secret)

    def guess(self, known: Knowledge) -> Guess:
        if self.lemma:
            return self._lemma(known)
        secret, pairs, targets = promised(known.secret), promised(known.known_rows), promised(known.targets)
        group = known.encoding.groups[secret]
        slots, kept = np.arange(group.start, group.stop), _exact_slots(known)
        if not len(kept) and not known.columnwise:
            return Abstain("no column of the release preserves distances")
        if known.columnwise and not np.isin(slots, kept).all():
            nothing = np.zeros((len(targets), group.width))
            return Bounds(nothing, nothing + 1.0, secret)
        others = np.setdiff1d(kept if known.columnwise else np.arange(known.encoding.width), slots)
        Z, noise = known.release[:, kept], np.zeros(len(kept))
        if known.noise_covariance is not None:
            noise = np.nan_to_num(np.diag(known.noise_covariance), posinf=1e6)[kept]
        leaked, index = pairs.X[: self.leaked], pairs.index[: self.leaked]
        stretch = 0.0 if known.columnwise else _length_variance(leaked, Z[index], noise)
        options = tried_values(group)
        possible = np.ones((len(targets), len(options)), dtype=bool)
        for x, row in zip(leaked, index, strict=True):
            seen = ((Z[known.images] - Z[row]) ** 2).sum(axis=1) - 2 * noise.sum()
            apart = ((options - x[slots]) ** 2).sum(axis=1)
            predicted = ((targets[:, others] - x[others]) ** 2).sum(axis=1)[:, None] + apart
            variance = 8 * predicted * noise.max(initial=0.0) + 4 * FOURTH * (noise**2).sum() + stretch * predicted**2
            slack = self.sureness * np.sqrt(variance) + 1e-9
            if not group.is_onehot:
                slack = slack + STEP * np.sqrt(apart) + STEP**2 / 4  # the true value lies up to half a step away
            possible &= np.abs(seen[:, None] - predicted) <= slack
        # From the smallest to the largest possible value of every slot; all of it where nothing is possible.
        possible |= ~possible.any(axis=1, keepdims=True)
        low = np.where(possible[:, :, None], options, np.inf).min(axis=1)
        high = np.where(possible[:, :, None], options, -np.inf).max(axis=1)
        if not group.is_onehot:
            low[:, 0], high[:, 0] = low[:, 0] - STEP / 2, high[:, 0] + STEP / 2
        return Bounds(np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0), secret)


def tried_values(group: Group) -> Matrix:
    """Encoded values (m x slots) between which the adversary must choose: a grid of numbers, or every category."""
    if group.is_onehot:
        return np.asarray(group.vertices, dtype=np.float64)
    numbers = np.arange(0.0, 1.0 + STEP / 2, STEP)[:, None]
    if not group.has_indicator:
        return numbers
    return np.vstack([np.hstack([numbers, np.zeros_like(numbers)]), [[0.5, 1.0]]])


def _exact_slots(known: Knowledge) -> Codes:
    """Release columns that keep distances but for added noise: no answers at random, no other operator."""
    if known.noise is None:
        return np.arange(known.release.shape[1])
    found: list[int] = []
    for place, channel in zip(known.noise.places, known.noise.channels, strict=True):
        if channel.adds:
            found += range(place.start, place.stop if channel.is_exact else place.start + channel.numbers)
    return np.array(found, dtype=np.int64)


def _length_variance(X: Matrix, Z: Matrix, noise: Matrix) -> float:
    """Relative variance of squared distances under the map: 0 for a rotation, 2/s for a projection to s columns. A map
    to fewer columns is a projection; of a square one the leaked rows tell, unless noise hides it."""
    s = int(Z.shape[1])
    if s < X.shape[1]:
        return 2.0 / s
    before = ((X[1:] - X[0]) ** 2).sum(axis=1)
    after = ((Z[1:] - Z[0]) ** 2).sum(axis=1) - 2 * noise.sum()
    slack = 3 * np.sqrt(8 * before * noise.max(initial=0.0) + 4 * FOURTH * (noise**2).sum()) + 1e-6
    return 0.0 if bool(np.all(np.abs(after - before) <= slack)) else 2.0 / s
