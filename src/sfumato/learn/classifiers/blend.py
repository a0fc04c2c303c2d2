"""The mean of three ordinary learners, for rows without noise of their own: made-up rows, and rows as they are.

Made-up rows share the noise of the counts they were drawn from, so held-out made-up rows cannot tell which learner has
mistaken that noise for signal. A single learner can fail badly: on one covtype release boosting answered 7 of 100
rightly, and the mean of all three 69. Averaging needs no choice, and costs no folds (docs/decisions/0107).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from sfumato.core.array_types import Floats
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.reads_noise import GivesProbabilities


@dataclass(eq=False, repr=False)
class Blend(GivesProbabilities):
    """Forest, boosting and logistic regression; their probabilities are averaged.

    Parameters
    ----------
    trees : int, default=60
        Of the forest, whose leaves hold at least 15 rows.
    rounds : int, default=50
        Of boosting, with trees of at most 8 leaves.
    most_rows : int, default=10_000
        Rows that are learned from at most, drawn at random: made-up rows come in any number and tell no more.
    seed : int, default=0
        Of all random choices.
    """

    reads_gaps = True

    trees: int = 60
    rounds: int = 50
    most_rows: int = 10_000
    seed: int = 0

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit all three on the same rows, in one thread: small trees wait for each other longer than they work."""
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.classes_ = np.unique(labels)
        self.n_features_in_ = rows.shape[1]
        if len(rows) > self.most_rows:
            rng = np.random.default_rng(self.seed)
            # One row of every class at least, so that each part knows the same classes.
            first = np.unique(labels, return_index=True)[1]
            chosen = np.union1d(first, rng.choice(len(rows), self.most_rows, replace=False))
            rows, labels = rows[chosen], labels[chosen]
        settings: dict[str, dict[str, Any]] = {
            "forest": {"trees": self.trees, "min_leaf": 15, "seed": self.seed},
            "boosting": {"rounds": self.rounds, "rate": 0.1, "max_leaves": 8, "seed": self.seed},
            "logistic": {},
        }
        if np.isnan(rows).any():
            del settings["logistic"]
        with threadpool_limits(1):
            self.parts_ = [make_classifier(name, parameters=own).fit(rows, labels) for name, own in settings.items()]
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """The mean of what the parts say; one that cannot read an empty cell is left out."""
        rows = np.asarray(X, dtype=np.float64)
        parts = self.parts_[:2] if np.isnan(rows).any() else self.parts_
        with threadpool_limits(1):
            return np.asarray(np.mean([part.predict_proba(rows) for part in parts], axis=0))
