"""What a release is still good for. Plain functions; each says in its first line which way is better."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from sfumato.array_types import Matrix
from sfumato.metrics.privacy import Interval
from sfumato.registry import metric
from sfumato.table import Encoding, Group


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
    a, b = np.sort(np.asarray(first, float)), np.sort(np.asarray(second, float))
    points = np.concatenate([a, b])
    steps = np.searchsorted(a, points, "right") / len(a) - np.searchsorted(b, points, "right") / len(b)
    return float(np.abs(steps).max())


@metric(takes="samples", better="lower")
def wasserstein(first: ArrayLike, second: ArrayLike, span: float = 1.0) -> float:
    """Mean distance that mass must move to turn one sample into the other, over the column's range; lower is better."""
    return float(stats.wasserstein_distance(np.asarray(first, float), np.asarray(second, float)) / (span or 1.0))


@metric(takes="shares", better="lower")
def total_variation(first: ArrayLike, second: ArrayLike) -> float:
    """Half the L1 distance of two vectors of category shares, in [0, 1]; lower is better."""
    return float(0.5 * np.abs(np.asarray(first, float) - np.asarray(second, float)).sum())


def associations(X: Matrix, encoding: Encoding) -> Matrix:
    """Strength of association between every pair of source columns, in [-1, 1]; neither way is better.

    Two numbers: Pearson's correlation. Two categories: Cramer's V. A number and a category: the correlation ratio
    (root of the share of the number's variance that lies between categories). Constant columns: 0.
    """
    groups = encoding.groups
    result = np.eye(len(groups))
    for i, first in enumerate(groups):
        for j in range(i):
            result[i, j] = result[j, i] = _association(X, first, groups[j])
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
    a, b = X[both, first.start : first.stop], X[both, second.start : second.stop]
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
