"""Blind source separation: a mixture of independent columns is unmixed by independent component analysis (ICA)."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from sfumato.accepted import Whole
from sfumato.array_types import Matrix
from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values
from sfumato.attacks.eigen_alignment import NOTHING_MIXED, axes_of
from sfumato.attacks.observation import into_domain
from sfumato.attacks.unmixing import CONTRASTS, unmixing_rotation

MOST_ROWS, MOST_CELLS = 5_000, 150_000
"""Of which the components are learned; they are then read off all rows."""
LEVELS = (np.arange(200) + 0.5) / 200
ALIKE = 0.95
"""Correlation at which two runs are said to have found the same component."""


class Unmixed(NamedTuple):
    """Components of unit variance (n x r); for each of the r how well another run agrees; runs that settled."""

    components: Matrix
    agreement: Matrix
    settled: int
    runs: int


class IndependentComponents(Attack):
    """The adversary takes the release for a mixture of independent columns and unmixes it.

    ICA [random-rotation, 4.4] gives components without order, sign or scale. He knows how each source column is
    distributed, and pairs components with columns by an exact assignment: the cost of a pair is the squared distance
    of their standardised quantile functions, for the better of both signs. A component then takes the column's mean
    and deviation; columns without a component are guessed by their mean.

    ICA finds local optima: `runs` starts and three contrasts are tried, and the settled run that fits the columns best
    is taken. Where no run settles, or no two runs find a common component (normal columns), it says that ICA did not
    converge, which is no privacy: another start, or another attack, may still succeed. (On a small table of normal
    columns the runs may also agree on an accident of the sample; the guess is then wrong.) The release is put on its
    principal axes first, signed by their skewness, so that the result is the same for every rotation of the same rows.

    Parameters
    ----------
    runs : int, default=6
        Starts that are tried, from 1 to 100.
    iterations : int, default=200
        Of one run at most, from 1 to 10,000.
    seed : int, default=0
        Of the starts, from 0 to 2**31 - 1.
    """

    name = "independent-components"
    knows = frozenset({"release", "column_moments", "column_distributions"})
    accepts = MappingProxyType({"runs": Whole(1, 100), "iterations": Whole(1, 10_000), "seed": Whole(0, 2**31 - 1)})

    def __init__(self, runs: int = 6, iterations: int = 200, seed: int = 0) -> None:
        self.runs, self.iterations, self.seed = runs, iterations, seed

    def guess(self, known: Knowledge) -> Guess:
        """Unmix, match, sign and rescale."""
        assert known.column_moments is not None
        assert known.column_distributions is not None
        if known.columnwise:
            return Abstain(NOTHING_MIXED)
        mean, covariance = known.column_moments
        deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        columns = column_quantiles(known.column_distributions, mean, deviation)
        found = self.unmix(known.release, columns)
        if isinstance(found, Abstain):
            return found
        costs, signs = matching_costs(found.components, columns)
        which, column = linear_sum_assignment(costs)
        X = np.tile(mean, (len(known.release), 1))
        X[:, column] += found.components[:, which] * signs[which, column] * deviation[column]
        details = {
            "converged_runs": float(found.settled),
            "runs": float(found.runs),
            "stable_components": float(np.mean(found.agreement > ALIKE)),
        }
        return Values(into_domain(X), details=details)

    def unmix(self, Z: Matrix, columns: Matrix | None = None) -> Unmixed | Abstain:
        """The components of the best settled run: the one nearest to the columns' quantiles, else the first."""
        white = canonical_scores(Z)
        rank = white.shape[1]
        if rank == 0:
            return Abstain("the release does not vary")
        if len(Z) <= 2 * rank:
            return Abstain(f"ICA needs more than {len(Z)} rows for {rank} components")
        if rank == 1:
            return Unmixed(white, np.ones(1), 1, 1)
        most = min(len(white), MOST_ROWS, max(MOST_CELLS // rank, 20 * rank))
        rows = white[np.linspace(0, len(white) - 1, most).round().astype(int)]
        rng = np.random.default_rng(self.seed)
        settled: list[Matrix] = []
        for tried in range(self.runs):
            if tried == len(CONTRASTS) and not settled:  # no contrast finds anything: further starts would not either
                break
            start = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
            found = unmixing_rotation(rows, list(CONTRASTS)[tried % len(CONTRASTS)], start, self.iterations)
            settled += [] if found is None else [found]
        if not settled:
            return Abstain("ICA did not converge in any run, which says nothing about privacy")
        agreement = [_agreement(W, [other for other in settled if other is not W]) for W in settled]
        if max(float(shares.max()) for shares in agreement) <= ALIKE:
            return Abstain(
                f"ICA did not converge: no two of {self.runs} runs found a common component, which says nothing about "
                "privacy"
            )
        fits = [0.0] * len(settled)
        if columns is not None:
            fits = [_fit(white @ W.T, columns) for W in settled]
        best = int(np.argmin(fits))
        return Unmixed(white @ settled[best].T, agreement[best], len(settled), self.runs)


def canonical_scores(Z: Matrix) -> Matrix:
    """Uncorrelated scores of variance 1 along the axes that vary, each signed so that its skewness is positive."""
    axes = axes_of(Z)
    keep = axes.variances > 1e-9 * max(float(axes.variances[0]), 1e-12)
    scores = (Z - axes.mean) @ axes.vectors[:, keep]
    scores = scores / np.where(scores.std(axis=0) > 0, scores.std(axis=0), 1.0)
    return np.asarray(scores * np.where((scores**3).sum(axis=0) < 0, -1.0, 1.0))


def column_quantiles(distributions: tuple[Matrix, ...], mean: Matrix, deviation: Matrix) -> Matrix:
    """Standardised quantile function of every column (d x levels); NaN for a constant one."""
    raw = np.array([np.quantile(values, LEVELS) for values in distributions])
    spread = np.where(deviation > 1e-12, deviation, np.nan)
    return np.asarray((raw - mean[:, None]) / spread[:, None])


def matching_costs(components: Matrix, columns: Matrix) -> tuple[Matrix, Matrix]:
    """Squared distance of quantile functions for the better sign, and that sign (both components x columns)."""
    own = np.quantile(components, LEVELS, axis=0).T
    same = ((own[:, None] - columns[None]) ** 2).mean(axis=2)
    turned = ((-own[:, None, ::-1] - columns[None]) ** 2).mean(axis=2)
    costs = np.minimum(same, turned)
    return np.where(np.isnan(costs), 1e3, costs), np.where(turned < same, -1.0, 1.0)


def _fit(components: Matrix, columns: Matrix) -> float:
    costs, _ = matching_costs(components, columns)
    return float(costs[linear_sum_assignment(costs)].sum())


def _agreement(W: Matrix, others: list[Matrix]) -> Matrix:
    """For each component of one run the largest correlation with a component of any other run."""
    if not others:
        return np.zeros(len(W))
    return np.asarray(np.max([np.abs(W @ other.T).max(axis=1) for other in others], axis=0))
