"""How many clusters a release shows, and whether they come again: from released rows alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.learn.asked import AUTO, MIXTURES
from sfumato.learn.mining.mixture import Mixture, fit_mixture
from sfumato.learn.mining.seen import Seen

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


FOLDS = 4
STARTS = 3


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

    def is_worse_than(self, other: Candidate) -> bool:
        """By more than one standard error, on the same rows."""
        less = other.rows - self.rows
        return float(less.mean()) > float(less.std()) / math.sqrt(len(less))

    def to_dict(self) -> dict[str, Any]:
        told = {"clusters": self.clusters, "model": self.model, "score": self.score}
        return {**told, "gain": self.gain, "error": self.error, "is_shown": self.is_shown}


def candidates(seen: Sequence[Seen], numbers: Sequence[int], model: str, seed: int) -> list[Candidate]:
    """Numbers of clusters and models on the same folds, one cluster first; no further than two that bring nothing."""
    n = len(seen[0].codes)
    fold = np.random.default_rng(seed).permutation(n) % FOLDS
    found: list[Candidate] = []
    for one in _models(seen, model):
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


def _models(seen: Sequence[Seen], model: str) -> Sequence[str]:
    """Models differ in the variances of numbers: where all columns are categories, one of them is enough."""
    if model != AUTO:
        return (model,)
    return MIXTURES if any(column.numbers for column in seen) else MIXTURES[:1]


def choose(tried: Sequence[Candidate], clusters: int | None) -> Candidate:
    """The fewest clusters that are no worse than the best, and of these the likeliest; or the number that is given."""
    fitting = [one for one in tried if clusters in (None, one.clusters)]
    best = max(fitting, key=lambda one: one.score)
    as_good = [one for one in fitting if not one.is_worse_than(best)]
    fewest = min(one.clusters for one in as_good)
    return max((one for one in as_good if one.clusters == fewest), key=lambda one: one.score)


def held_out(seen: Sequence[Seen], clusters: int, model: str, fold: Codes, seed: int) -> Floats:
    """Log-likelihood of every released row under the mixture that was fitted to the other folds."""
    scores = np.empty(len(fold))
    for number in range(FOLDS):
        rest, here = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        fitted = fit_mixture([one.take(rest) for one in seen], clusters, model, seed=seed, starts=STARTS)
        scores[here] = fitted.mean_score([one.take(here) for one in seen])
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
