"""A mixture of clusters behind noise, by expectation-maximization on the likelihoods of released values.

Within a cluster columns are independent: a number is normal, a category has shares. The density of a released value is
that of the cluster sent through the channel, so that the estimate is of the *plain* rows (deconvolution). "spherical"
has one variance for all clusters and columns of numbers, which is k-means' own model; "diagonal" one for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.learn.asked import AUTO, MIXTURES
from sfumato.learn.mining.seen import Seen

MOST_STEPS, TOLERANCE = 150, 5e-5
STARTS, TRIED_STEPS = 5, 15
"""So many beginnings are followed for some steps, and the likeliest of them to the end."""
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Laws:
    """One column in all k clusters: means and variances (k) of its number, shares (k x m') of what is no number."""

    mean: Floats
    variance: Floats
    shares: Matrix

    def over(self, seen: Seen) -> Matrix:
        """Probabilities of the nodes, m x k."""
        present = 1.0 - self.shares.sum(axis=1)
        found = np.empty((len(seen.nodes), len(self.shares)))
        found[seen.numbers :] = self.shares.T
        if seen.numbers:
            away = (seen.grid[:, None] - self.mean) ** 2 / (2.0 * self.variance)
            bell = np.exp(away.min(axis=0) - away)
            found[: seen.numbers] = present * bell / bell.sum(axis=0)
        return found


@dataclass(frozen=True, eq=False)
class Mixture:
    """Clusters of plain rows, the largest first. `score`: mean log-likelihood of a released row, up to a constant that
    depends on the rows only."""

    model: str
    weights: Floats
    laws: tuple[Laws, ...]
    score: float = 0.0

    @property
    def clusters(self) -> int:
        return len(self.weights)

    def log_joint(self, seen: Sequence[Seen]) -> Matrix:
        """log P(cluster, released row), n x k, up to the same constant."""
        total = np.tile(np.log(self.weights + _TINY), (len(seen[0].codes), 1))
        for column, laws in zip(seen, self.laws, strict=True):
            told = np.log(column.lines @ laws.over(column) + _TINY)
            total += np.where(column.reported[:, None], told[column.codes], 0.0)
        return total

    def responsibilities(self, seen: Sequence[Seen]) -> Matrix:
        """P(cluster | released row), n x k."""
        joint = self.log_joint(seen)
        return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))


def fit_mixture(
    seen: Sequence[Seen], clusters: int, model: str = "diagonal", *, seed: int = 0, starts: int = STARTS
) -> Mixture:
    """The likeliest of several runs, each from k-means on what the rows are likely to have been."""
    one = _run(seen, _first(seen, np.ones((len(seen[0].codes), 1)), model))
    if clusters == 1:
        return one
    from sklearn.cluster import KMeans

    guesses, runs = expected_values(seen, one), []
    for number in range(seed, seed + starts):
        # Every other start weighs columns at random, so that starts differ where one column would decide them all.
        weigh = (number - seed) % 2 == 1
        weights = np.random.default_rng(number).exponential(size=guesses.shape[1]) if weigh else 1.0
        with threadpool_limits(1):  # for tables this small, threads that wait for each other cost more than they give
            labels = KMeans(clusters, n_init=1, random_state=number).fit_predict(guesses * weights)
        runs.append(_run(seen, _first(seen, np.eye(clusters)[labels], model), TRIED_STEPS))
    found = _run(seen, max(runs, key=lambda run: run.score))
    order: Codes = np.argsort(-found.weights, kind="stable")
    laws = tuple(Laws(one.mean[order], one.variance[order], one.shares[order]) for one in found.laws)
    return Mixture(model, found.weights[order], laws, found.score)


def expected_values(seen: Sequence[Seen], one: Mixture) -> Matrix:
    """For every row the mean of each column given what was released of it, where all rows are one cluster."""
    found = []
    for column, laws in zip(seen, one.laws, strict=True):
        prior = laws.over(column)[:, 0]
        posterior = column.lines * prior
        posterior /= posterior.sum(axis=1, keepdims=True) + _TINY
        values = np.vstack([posterior @ column.nodes, prior @ column.nodes])  # the last line: not reported
        found.append(values[column.codes])
    return np.hstack(found)


def _first(seen: Sequence[Seen], belongs: Matrix, model: str) -> Mixture:
    """From a grouping of the rows, as if every line were that of its likeliest value."""
    flat = tuple(
        Laws(
            np.full(belongs.shape[1], column.grid.mean() if column.numbers else 0.0),
            np.full(belongs.shape[1], np.ptp(column.grid) ** 2 if column.numbers else 1.0),
            np.full((belongs.shape[1], len(column.nodes) - column.numbers), 1.0 / len(column.nodes)),
        )
        for column in seen
    )
    begin = Mixture(model, np.full(belongs.shape[1], 1.0 / belongs.shape[1]), flat)
    return _maximised(seen, begin, belongs)


def _run(seen: Sequence[Seen], mixture: Mixture, steps: int = MOST_STEPS) -> Mixture:
    best, last = mixture, -np.inf
    for _ in range(steps):
        joint = mixture.log_joint(seen)
        rows = logsumexp(joint, axis=1, keepdims=True)
        score = float(rows.mean())
        best = Mixture(mixture.model, mixture.weights, mixture.laws, score)
        if score - last < TOLERANCE:
            break
        last = score
        mixture = _maximised(seen, mixture, np.exp(joint - rows))
    return best


def _maximised(seen: Sequence[Seen], old: Mixture, belongs: Matrix) -> Mixture:
    """The M-step: expected counts of the nodes in every cluster, and the laws that fit them."""
    sizes = belongs.sum(axis=0)
    sums = []
    for column, laws in zip(seen, old.laws, strict=True):
        prior = laws.over(column)
        ratio = column.counts(belongs) / (column.lines @ prior + _TINY)
        sums.append(prior * (column.lines.T @ ratio))
    fitted = _with_variances(seen, sums, old.model)
    return Mixture(old.model, sizes / sizes.sum(), fitted)


def _spread(column: Seen, counts: Matrix) -> tuple[Floats, Floats, Floats]:
    """One column in every cluster: how many rows have a number there, its mean, and the sum of squares about it."""
    numbers = counts[: column.numbers]
    present = numbers.sum(axis=0)
    if not column.numbers:
        return present, present, np.zeros(len(present))
    mean = column.grid @ numbers / np.maximum(present, _TINY)
    return present, mean, ((column.grid[:, None] - mean) ** 2 * numbers).sum(axis=0)


def _with_variances(seen: Sequence[Seen], sums: Sequence[Matrix], model: str) -> tuple[Laws, ...]:
    """`diagonal`: the clusters' common variance counts in that of each as many rows as there are columns, so that no
    cluster shrinks to a point; never below the distance of two nodes."""
    spreads = [_spread(column, counts) for column, counts in zip(seen, sums, strict=True)]
    of_numbers = [one for one, column in zip(spreads, seen, strict=True) if column.numbers]
    shared = sum(float(squares.sum()) for _, _, squares in of_numbers)
    shared /= max(sum(float(present.sum()) for present, _, _ in of_numbers), _TINY)
    laws = []
    for column, counts, (present, mean, squares) in zip(seen, sums, spreads, strict=True):
        variance = np.ones(len(present))
        if column.numbers and model == "spherical":
            variance = np.full(len(present), shared)
        elif column.numbers:
            pooled = float(squares.sum()) / max(float(present.sum()), _TINY)
            variance = (squares + len(seen) * pooled) / (present + len(seen))
        if column.numbers:
            variance = np.maximum(variance, column.step**2)
        shares = (counts[column.numbers :] / np.maximum(counts.sum(axis=0), _TINY)).T
        laws.append(Laws(mean, variance, shares))
    return tuple(laws)


# How far two groupings of the same rows agree.


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


# How many clusters a release shows, and whether they come again: from released rows alone.


FOLDS = 4
FEWER_STARTS = 3
"""Of each fit to the other folds."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One number of clusters and model, and its log-likelihood of released rows that it was not fitted to.

    `gain`: that less one cluster's, a row; `error`: its standard error over rows.
    """

    clusters: int
    model: str
    rows: Floats
    gain: float
    error: float

    @property
    def score(self) -> float:
        return float(self.rows.mean())

    @property
    def is_shown(self) -> bool:
        """Whether the held-out rows are likelier than under one cluster, by two standard errors."""
        return self.gain > 2.0 * self.error

    def to_dict(self) -> dict[str, Any]:
        told = {"clusters": self.clusters, "model": self.model, "score": self.score}
        return {**told, "gain": self.gain, "error": self.error, "is_shown": self.is_shown}


def candidates(seen: Sequence[Seen], numbers: Sequence[int], model: str, seed: int) -> list[Candidate]:
    """Numbers of clusters and models on the same folds, one cluster first; no further than two that bring nothing."""
    n = len(seen[0].codes)
    fold = np.random.default_rng(seed).permutation(n) % FOLDS
    found: list[Candidate] = []
    # Models differ in the variances of numbers: where all columns are categories, one of them is enough.
    models = MIXTURES if any(column.numbers for column in seen) else MIXTURES[:1]
    for one in (model,) if model != AUTO else models:
        alone = held_out(seen, 1, one, fold, seed)
        best, vain = -np.inf, 0
        for clusters in sorted({1, *numbers}):
            rows = alone if clusters == 1 else held_out(seen, clusters, one, fold, seed)
            gain = rows - alone
            found.append(Candidate(clusters, one, rows, float(gain.mean()), float(gain.std() / np.sqrt(n))))
            vain = 0 if found[-1].score > best else vain + 1
            best = max(best, found[-1].score)
            if vain == 2:
                break
    return found


def choose(tried: Sequence[Candidate], clusters: int | None) -> Candidate:
    """The fewest clusters that are no worse than the best, and of these the likeliest; or the number that is given."""
    fitting = [one for one in tried if clusters in (None, one.clusters)]
    best = max(fitting, key=lambda one: one.score)
    as_good = []
    for one in fitting:
        less = best.rows - one.rows
        if float(less.mean()) <= float(less.std()) / math.sqrt(len(less)):  # no worse by more than a standard error
            as_good.append(one)
    fewest = min(one.clusters for one in as_good)
    return max((one for one in as_good if one.clusters == fewest), key=lambda one: one.score)


def held_out(seen: Sequence[Seen], clusters: int, model: str, fold: Codes, seed: int) -> Floats:
    """Log-likelihood of every released row under the mixture that was fitted to the other folds."""
    scores = np.empty(len(fold))
    for number in range(FOLDS):
        rest, here = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        fitted = fit_mixture([one.take(rest) for one in seen], clusters, model, seed=seed, starts=FEWER_STARTS)
        scores[here] = logsumexp(fitted.log_joint([one.take(here) for one in seen]), axis=1)
    return scores


def stability(seen: Sequence[Seen], fitted: Mixture, resamples: int, seed: int) -> list[float]:
    """Adjusted Rand index between the grouping of the rows and that by a mixture fitted to a bootstrap sample."""
    rng = np.random.default_rng(seed)
    mine, n = fitted.responsibilities(seen).argmax(axis=1), len(seen[0].codes)
    found = []
    for number in range(resamples):
        rows = rng.integers(n, size=n)
        again = fit_mixture([one.take(rows) for one in seen], fitted.clusters, fitted.model, seed=seed + number + 1)
        found.append(adjusted_rand(mine, again.responsibilities(seen).argmax(axis=1)))
    return found


def expected_agreement(responsibilities: Matrix) -> float:
    """If the mixture is right: how far the grouping of released rows agrees with the clusters that they came from."""
    chosen = np.eye(responsibilities.shape[1])[responsibilities.argmax(axis=1)]
    return adjusted_rand_of(responsibilities.T @ chosen)
