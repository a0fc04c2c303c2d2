"""What a release is still good for. Plain functions; each says in its first line which way is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import logsumexp

from sfumato.attacks.metrics.privacy import Interval
from sfumato.channels import Channel, apart
from sfumato.channels.maps import places
from sfumato.channels.recipe import draw
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.core.registry import metric
from sfumato.mechanisms import Mechanism
from sfumato.table import Encoding, Group
from sfumato.table.neighbours.tiles import slices
from sfumato.table.statistics import NO_CLASS

# How far kernel estimates lie from a density: the distributed aggregate "privacy loss" of [kernel-resampling, Eq. 18].
#
# DAPL = 1/2 sum_l (N_l / N) E integral |g_l - f|, half the L1 distance of every site's estimate g_l to f, weighted by
# the sites' rows, for one class. It says how good the estimates are, not how private anybody is: it falls as sites
# grow, and nears 1 for eight columns or more whatever is done. The integral is estimated without a grid, from
#
#     1/2 integral |f - g|  =  E over z ~ (f + g)/2 of  |f(z) - g(z)| / (f(z) + g(z)),
#
# whose summand lies in [0, 1], so that a few hundred draws are enough in any number of columns. f must come from
# elsewhere than g: a known truth, or the estimate from rows held apart. With the estimate from the same rows the loss
# of one site is 0 by construction.
POINT = 1e-9
"""Bandwidth of a column that is constant: two estimates agree there only if the constant is the same."""
CELLS = 1 << 22


class KnownDensity(Protocol):
    """A density that can be evaluated and drawn from."""

    def logpdf(self, Z: Matrix) -> Matrix:
        """log f of every row."""

    def sample(self, count: int, rng: np.random.Generator) -> Matrix:
        """Rows drawn from f."""


@dataclass(frozen=True)
class RowDensity:
    """The kernel estimate from encoded rows of one class: a mixture of what the channels make of each of them.

    Categories and empty cells have probabilities where numbers have densities; half the L1 distance is the same
    whatever it is measured in.
    """

    rows: Matrix
    channels: tuple[Channel, ...]

    @classmethod
    def of(cls, mechanism: Mechanism, X: Matrix, y: Codes | None, code: int | None) -> RowDensity:
        """What a mechanism fitted on (X, y) draws rows of class `code` from."""
        rows = X if y is None else X[y == code]
        return cls(rows, mechanism.recipe_.of_class(NO_CLASS if code is None else code))

    def logpdf(self, Z: Matrix) -> Matrix:
        rows, channels, start = self.rows, self.channels, -math.log(len(self.rows))
        if (shared := apart(channels)) is not None:
            rows, channels = shared.white(rows), shared.channels
            start -= float(np.linalg.slogdet(shared.root)[1])  # a density of B^-1 z is so much larger than that of z
        found = np.empty(len(Z))
        for some in slices(len(Z), max(1, CELLS // len(rows))):
            here = Z[some] if shared is None else shared.white(Z[some])
            total = np.full((len(here), len(rows)), start)
            for place, channel in zip(places(channels), channels, strict=True):
                # two estimates agree on a constant only if it is the same
                total += channel.blurred(POINT).log_likelihood(here[:, place], rows[:, place])
            found[some] = logsumexp(total, axis=1)
        return found

    def sample(self, count: int, rng: np.random.Generator) -> Matrix:
        return draw(self.channels, self.rows[rng.integers(len(self.rows), size=count)], rng)


class Loss(NamedTuple):
    """Half an L1 distance, between 0 and 1, and the standard error of its estimate."""

    loss: float
    error: float


def half_l1(f: KnownDensity, g: KnownDensity, rng: np.random.Generator, draws: int = 400) -> Loss:
    """Half the L1 distance of two densities, from 0 (the same) to 1 (nowhere together); lower is nearer.

    Half of the draws come from f and half from g, which is one draw from the mixture each, stratified.
    """
    values = []
    for density in (f, g):
        Z = density.sample(draws // 2, rng)
        gap = np.abs(np.nan_to_num(f.logpdf(Z) - g.logpdf(Z), nan=0.0, posinf=np.inf, neginf=-np.inf))
        values.append(np.tanh(gap / 2.0))  # |f - g| / (f + g) of two logarithms
    error = math.sqrt(sum(float(part.var(ddof=1)) / len(part) for part in values)) / 2.0
    return Loss(float(np.mean([part.mean() for part in values])), error)


def dapl(
    f: KnownDensity | Sequence[KnownDensity],
    sites: Sequence[KnownDensity],
    counts: Sequence[int],
    rng: np.random.Generator,
    draws: int = 400,
) -> Loss:
    """DAPL of one class; lower means better estimates, not more privacy. `f` is one density, or one per site (f_l).

    `counts` are the sites' rows of the class. Every site is compared with its own draws.
    """
    if len(sites) != len(counts) or not sites:
        raise UsageError("DAPL needs at least one site, and the number of rows of each.")
    truths = list(f) if isinstance(f, Sequence) else [f] * len(sites)
    shares = np.asarray(counts, dtype=np.float64) / float(np.sum(counts))
    losses = [half_l1(truth, site, rng, draws) for truth, site in zip(truths, sites, strict=True)]
    total = float(shares @ np.array([loss.loss for loss in losses]))
    return Loss(total, math.sqrt(float(shares**2 @ np.array([loss.error**2 for loss in losses]))))


class Phi(NamedTuple):
    """Mean of `error with randomized - error with original training data`, and its interval."""

    value: float
    interval: Interval


@metric(takes="answers", better="higher")
def accuracy(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Share of right predictions; higher is better."""
    return float(np.mean(np.asarray(truth) == np.asarray(predicted)))


def phi(
    original_accuracy: ArrayLike,
    release_accuracy: ArrayLike,
    *,
    test_share: float | None = None,
    confidence: float = 0.95,
) -> Phi:
    """Error with randomized minus error with original training data [kernel-resampling, Eq. 20]; lower is better.

    Both arguments hold one accuracy per split, on the same splits. The interval is Student's t on the differences;
    with `test_share` (test rows / all rows) it is corrected for overlapping training sets (Nadeau & Bengio 2003): the
    variance is multiplied by 1/J + test/train in place of 1/J, J the number of splits. One split gives no interval:
    NaN.
    """
    difference = np.atleast_1d(np.asarray(original_accuracy, float) - np.asarray(release_accuracy, float))
    count, mean = len(difference), float(np.mean(difference))
    if count < 2:
        return Phi(mean, Interval(float("nan"), float("nan")))
    factor = 1.0 / count + (0.0 if test_share is None else test_share / (1.0 - test_share))
    half = float(stats.t.ppf(0.5 + confidence / 2, count - 1)) * float(np.sqrt(factor * np.var(difference, ddof=1)))
    return Phi(mean, Interval(mean - half, mean + half))


@metric(takes="samples", better="lower")
def kolmogorov_smirnov(first: ArrayLike, second: ArrayLike) -> float:
    """Largest difference of two samples' distribution functions, in [0, 1]; lower is better."""
    return float(np.abs(_apart(first, second)[1]).max())


@metric(takes="samples", better="lower")
def wasserstein(first: ArrayLike, second: ArrayLike, span: float = 1.0) -> float:
    """Mean distance that mass must move to turn one sample into the other, over the column's range; lower is better."""
    if not np.size(first) or not np.size(second):
        raise ValueError("One of the samples is empty, so that there is no distance.")
    points, steps = _apart(first, second)
    return float(np.vecdot(np.abs(steps[:-1]), np.diff(points)) / (span or 1.0))


def _apart(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    """The values of two samples in order, and from each on the difference of their distribution functions."""
    a, b = np.sort(np.asarray(first, float)), np.sort(np.asarray(second, float))
    points = np.sort(np.concatenate([a, b]), kind="stable")  # two runs: merged
    return points, np.searchsorted(a, points, "right") / len(a) - np.searchsorted(b, points, "right") / len(b)


@metric(takes="shares", better="lower")
def total_variation(first: ArrayLike, second: ArrayLike) -> float:
    """Half the L1 distance of two vectors of category shares, in [0, 1]; lower is better."""
    return float(0.5 * np.abs(np.asarray(first, float) - np.asarray(second, float)).sum())


def associations(X: Matrix, encoding: Encoding) -> Matrix:
    """Strength of association between every pair of source columns, in [-1, 1]; neither way is better.

    Two numbers: Pearson's correlation. Two categories: Cramer's V. A number and a category: the correlation ratio
    (root of the share of the number's variance that lies between categories). Constant columns: 0.
    """
    result = np.eye(len(encoding.groups))
    for (i, first), (j, second) in combinations(enumerate(encoding.groups), 2):
        result[i, j] = result[j, i] = _association(X, second, first)
    return result


def cramers_v(table: Matrix) -> float:
    """Cramer's V of a contingency table of counts, in [0, 1]: strength, not quality."""
    table = table[np.ix_(table.sum(axis=1) > 0, table.sum(axis=0) > 0)]
    if min(table.shape, default=0) < 2:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    chi2 = float(((table - expected) ** 2 / expected).sum())
    return float(np.sqrt(chi2 / (table.sum() * (min(table.shape) - 1))))


def _association(X: Matrix, first: Group, second: Group) -> float:
    both = ~np.isnan(X[:, first.start]) & ~np.isnan(X[:, second.start])  # of the rows that report both
    a, b = X[both, first.slice], X[both, second.slice]
    if not len(a):
        return 0.0
    if first.is_onehot and second.is_onehot:
        return cramers_v(_onehot(a).T @ _onehot(b))
    if first.is_onehot:
        return _correlation_ratio(b[:, 0], _onehot(a))
    if second.is_onehot:
        return _correlation_ratio(a[:, 0], _onehot(b))
    x, y = a[:, 0] - a[:, 0].mean(), b[:, 0] - b[:, 0].mean()
    if _is_constant(x, a[:, 0]) or _is_constant(y, b[:, 0]):
        return 0.0
    return float(x @ y) / float(np.sqrt((x @ x) * (y @ y)))


def _is_constant(centred: Matrix, values: Matrix) -> bool:
    """Whether a column differs from its mean by rounding only."""
    return bool(np.abs(centred).max() <= 1e-12 * max(1.0, float(np.abs(values).max())))


def _correlation_ratio(number: Matrix, onehot: Matrix) -> float:
    centred = number - number.mean()
    if _is_constant(centred, number):
        return 0.0
    total = float(centred @ centred)
    counts = onehot.sum(axis=0)
    means = np.divide(onehot.T @ number, counts, out=np.full(len(counts), number.mean()), where=counts > 0)
    return float(np.sqrt((counts * (means - number.mean()) ** 2).sum() / total))


def _onehot(slots: Matrix) -> Matrix:
    return np.asarray(np.eye(slots.shape[1])[slots.argmax(axis=1)])
