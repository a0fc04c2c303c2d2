"""Class distributions of a column from counts through a known channel, shrunk as much as the data ask for.

Every class distribution is p_c = pool exp(sum_k a_ck phi_k) / Z with orthonormal functions phi of the pooled
distribution: of a number the first two polynomials of its rank, of a category all contrasts. Before looking,
a_ck ~ N(0, t rho^(k-1)) with probability theta, and 0 otherwise. The three hyperparameters maximise the marginal
likelihood of all columns, in Laplace's approximation: a table with little signal is shrunk to nothing, one with much is
hardly shrunk. The a_ck then follow by a few damped Fisher-scoring steps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sfumato.array_types import Floats, Matrix

SPREADS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
DECAYS = (0.1, 0.3, 1.0)
SHARES = (0.1, 0.3, 1.0)
PSEUDO_ROWS = 16.0
"""Weight of the average column in every pooled distribution of a number."""
_EM, _STEPS, _DAMPING, _TINY = 200, 6, 0.7, 1e-12


@dataclass(frozen=True)
class Seen:
    """Counts (classes x outcomes) of one column in one part, and the transition (outcomes x states)."""

    counts: Matrix
    transition: Matrix


class Prior(NamedTuple):
    """Spread of the first coefficient, decay of the second, share of columns that differ between classes."""

    spread: float
    decay: float
    share: float


def pooled(seen: Sequence[Seen], prior: Floats) -> Floats:
    """The distribution of all classes together: expectation-maximization with so many rows of `prior` beforehand."""
    p: Floats = prior / prior.sum()
    totals = [(one.counts.sum(axis=0), one.transition) for one in seen]
    for _ in range(_EM):
        new = prior.copy()
        for counts, transition in totals:
            new += p * (transition.T @ (counts / np.maximum(transition @ p, _TINY)))
        new /= new.sum()
        if np.abs(new - p).sum() < 1e-7:
            return np.asarray(new)
        p = new
    return p


def functions(pool: Floats, parts: int) -> Matrix:
    """Orthonormal functions (states x k) under the pooled distribution; the constant is left out.

    `parts`: so many states are parts of a number's range; a further one says "missing". 0: a category.
    """
    if not parts:
        raw = np.eye(len(pool))[:, np.argsort(-pool, kind="stable")[:-1]]
    else:
        rank = np.cumsum(pool[:parts]) - pool[:parts] / 2.0
        rank = np.append(rank, np.full(len(pool) - parts, rank @ pool[:parts] / max(pool[:parts].sum(), _TINY)))
        raw = np.column_stack([rank, rank**2, *(np.eye(len(pool))[parts:])])
    found: list[Floats] = [np.ones(len(pool))]
    for column in raw.T:
        left = column.astype(np.float64)
        for _ in range(2):  # twice is enough
            for one in found:
                left = left - (pool @ (left * one)) * one
        norm = math.sqrt(float(pool @ left**2))
        if norm > 1e-6:
            found.append(left / norm)
    return np.column_stack(found[1:]) if len(found) > 1 else np.zeros((len(pool), 0))


@dataclass(frozen=True)
class ColumnFit:
    """One column: its pooled distribution, its functions, and what the counts say about each class near the pool.

    `score` (classes x k) and `information` (classes x k x k) are those of the coefficients at 0.
    """

    seen: tuple[Seen, ...]
    pool: Floats
    phi: Matrix
    score: Matrix
    information: Floats
    of_number: bool

    @classmethod
    def of(cls, seen: Sequence[Seen], pool: Floats, parts: int) -> ColumnFit:
        phi = functions(pool, parts)
        classes, k = len(seen[0].counts), phi.shape[1]
        score, information = np.zeros((classes, k)), np.zeros((classes, k, k))
        for one in seen:
            q = one.transition @ pool
            expected = (one.transition @ (pool[:, None] * phi)) / np.maximum(q, _TINY)[:, None]
            rows = one.counts.sum(axis=1)
            score += (one.counts - rows[:, None] * q) @ expected
            information += rows[:, None, None] * np.einsum("o,ok,ol->kl", q, expected, expected)
        return cls(tuple(seen), pool, phi, score, information, parts > 0)

    def variances(self, prior: Prior) -> Floats:
        """Of the coefficients: the decay is for polynomials, contrasts of categories are all alike."""
        decays = prior.decay ** np.minimum(np.arange(self.phi.shape[1]), 1.0) if self.of_number else 1.0
        return np.broadcast_to(prior.spread * decays, self.phi.shape[1])

    def evidence(self, prior: Prior) -> float:
        """Log marginal likelihood ratio of "differs between classes" to "does not"."""
        if not self.phi.shape[1]:
            return 0.0
        variance, classes = self.variances(prior), len(self.score)
        root = np.sqrt(variance)
        scaled = root[None, :, None] * self.information * root[None, None, :] + np.eye(len(root))
        explained = np.linalg.solve(scaled, (self.score * root)[:, :, None])[:, :, 0]
        found = 0.5 * float(((self.score * root) * explained).sum()) - 0.5 * float(np.linalg.slogdet(scaled)[1].sum())
        return found * (classes - 1) / classes  # deviations of the classes sum to zero

    def included(self, prior: Prior) -> float:
        """Posterior probability that the column differs between classes."""
        odds = self.evidence(prior) + math.log(prior.share) - math.log1p(-prior.share) if prior.share < 1 else math.inf
        return 1.0 / (1.0 + math.exp(-min(odds, 700.0))) if odds > -700 else 0.0

    def coefficients(self, prior: Prior) -> Matrix:
        """Damped Fisher scoring through the channel, every class on its own."""
        classes, k = self.score.shape
        found, penalty = np.zeros((classes, k)), 1.0 / self.variances(prior)
        for code in range(classes):
            a = np.zeros(k)
            for _ in range(_STEPS):
                p = self._tilted(a)
                centred = self.phi - p @ self.phi
                gradient, fisher = -penalty * a, np.diag(penalty).astype(np.float64)
                for one in self.seen:
                    q = np.maximum(one.transition @ p, _TINY)
                    slope = one.transition @ (p[:, None] * centred)
                    gradient += slope.T @ (one.counts[code] / q)
                    fisher += float(one.counts[code].sum()) * (slope.T @ (slope / q[:, None]))
                a = a + _DAMPING * np.linalg.solve(fisher, gradient)
                a = np.clip(a, -6.0, 6.0)
            found[code] = a
        return found

    def _tilted(self, a: Floats) -> Floats:
        weights = np.log(np.maximum(self.pool, 1e-300)) + self.phi @ a
        weights = np.exp(weights - weights.max())
        return np.asarray(weights / weights.sum())

    def distributions(self, prior: Prior) -> Matrix:
        """P(state | class), classes x states."""
        return np.array([self._tilted(a) for a in self.coefficients(prior)])


def choose_prior(columns: Sequence[ColumnFit]) -> Prior:
    """The hyperparameters of the largest marginal likelihood, with a weak preference for a spread of .3."""
    best, chosen = -math.inf, Prior(0.3, 0.3, 1.0)
    for spread, decay in itertools.product(SPREADS, DECAYS):
        found = np.array([column.evidence(Prior(spread, decay, 1.0)) for column in columns])
        for share in SHARES:
            total = _together(found, share) - 0.7 * math.log(spread / 0.3) ** 2 + math.log(share)
            if total > best:
                best, chosen = total, Prior(spread, decay, share)
    return chosen


def evidence_of(columns: Sequence[ColumnFit], prior: Prior) -> float:
    """Log marginal likelihood ratio of "some columns differ between classes" to "none does"."""
    return _together(np.array([column.evidence(prior) for column in columns]), prior.share)


def _together(found: Floats, share: float) -> float:
    return float(np.logaddexp(math.log(share) + found, _log(1.0 - share)).sum())


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
