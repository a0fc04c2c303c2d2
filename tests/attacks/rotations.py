"""Rotated tables, and what an adversary may know of them."""

import numpy as np

from sfumato.attacks.base import ColumnMoments, Knowledge, RowPairs
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.mechanisms.random_rotation import haar_rotation
from sfumato.table import Encoding


def scaled(X):
    """Columns on [0, 1]; a constant column at a half."""
    span = np.ptp(X, axis=0)
    return np.where(span > 0, (X - X.min(axis=0)) / np.where(span > 0, span, 1.0), 0.5)


def skewed(n, d, seed=0):
    """Columns that hang together, none of them symmetric, with variances that differ."""
    rng = np.random.default_rng(seed)
    sources = rng.gamma(rng.uniform(0.5, 3, d), size=(n, d))
    return scaled(sources @ (np.eye(d) + 0.2 * rng.normal(size=(d, d))).T) * np.linspace(1, 0.3, d)


def independent(n, d, seed=0):
    """Independent columns on [0, 1] of clearly different shapes, none of them symmetric (a sign would be a guess)."""
    rng = np.random.default_rng(seed)
    makers = (
        lambda: rng.random(n) ** 2,
        lambda: np.minimum(rng.exponential(size=n) / 12, 1),
        lambda: (rng.random(n) < 0.3).astype(float),
        lambda: rng.choice([0.0, 0.4, 0.9], n, p=[0.5, 0.3, 0.2]) + 0.1 * rng.random(n),
        lambda: rng.beta(0.4, 0.8, n),
        lambda: np.minimum(rng.gamma(0.3, size=n) / 8, 1),
    )
    return np.column_stack([makers[j % len(makers)]() for j in range(d)])


def knowledge(X, *, turn=1, noise=0.0, known=0, sample=None, population=None, matrix=None):
    """Z = R (x - t) + normal noise with another R and t for every `turn`, and all that may be known of it."""
    rng = np.random.default_rng(turn)
    d = X.shape[1]
    R = haar_rotation(d, rng) if matrix is None else matrix
    Z = (X - rng.random(d)) @ R.T + noise * np.random.default_rng(99).normal(size=(len(X), len(R)))
    index = np.random.default_rng(5).permutation(len(X))[:known]
    people = X if population is None else population
    return Knowledge(
        Z,
        Encoding.unit(d),
        columnwise=False,
        noise_covariance=noise**2 * np.eye(len(R)),
        column_moments=ColumnMoments(people.mean(axis=0), np.atleast_2d(np.cov(people, rowvar=False))),
        column_distributions=tuple(np.sort(people, axis=0).T),
        known_rows=RowPairs(X[index], index) if known else None,
        sample=sample,
    )


def score(guess, X):
    return score_guess(guess, Truth(X, Encoding.unit(X.shape[1]), rows=X))
