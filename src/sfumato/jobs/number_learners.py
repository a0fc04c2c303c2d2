"""How well learners predict a released number from the other released columns: kernel smoother, linear models, a tree.

Rows are learned from and asked as they were released, noise and all, each left out of what answers for it. That is what
somebody can measure who holds the release alone. A rotation of the explaining columns would change nothing of it for
the kernel smoother and linear models (`sfumato invariance --target`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.classifiers.regressions import REGRESSIONS
from sfumato.jobs.release import Release

FOLDS = 5
MOST_ROWS = 5_000
FEWEST_ROWS = 20


def held_out_errors(
    releases: Sequence[Release], target: int, explaining: Codes, unit: float, seed: int
) -> dict[str, Any]:
    """Root mean square error of each learner in raw units, and of always answering the mean; lower is better.

    `target` and `explaining` are places in the encoded matrix, `unit` is the raw width of the target's range. Empty
    where a release does not hold the source's columns, leaves cells out, or has too few rows.
    """
    if not all(release.card.is_columnwise for release in releases):
        return {}
    Z = np.concatenate([release.Z for release in releases])
    return errors_of(Z[:, explaining], Z[:, target], unit, seed)


def errors_of(X: Matrix, y: Matrix, unit: float, seed: int) -> dict[str, Any]:
    """The same of rows X and the number y beside each; `unit` is how many raw units one of y's is."""
    some = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    X, y = X[some], y[some]
    if len(X) < FEWEST_ROWS or np.isnan(X).any() or np.isnan(y).any():
        return {}
    fold = np.arange(len(X)) % FOLDS
    found = {}
    for name, regression in REGRESSIONS.items():
        answers = np.empty(len(y))
        for held in range(FOLDS):
            out = fold == held
            answers[out] = regression.make().fit(X[~out], y[~out]).predict(X[out])
        found[name] = float(np.sqrt(np.mean((answers - y) ** 2))) * unit
    means = np.array([y[fold != held].mean() for held in range(FOLDS)])
    return {"rows": len(X), "rmse": found, "rmse_of_mean": float(np.sqrt(np.mean((means[fold] - y) ** 2))) * unit}
