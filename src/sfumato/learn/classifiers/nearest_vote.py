"""NearestVote: the k nearest rows vote, with weights 1, 1/d or 1/d^2, and k may be chosen on the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from sfumato.core.array_types import Codes, Floats
from sfumato.learn.classifiers.reads_noise import GivesProbabilities, matrix_of_rows, rows_and_targets
from sfumato.table.neighbours.nearest import nearest

BY_VALIDATION = "cross-validation"
POWERS = {"1": 0, "1/d": 1, "1/d^2": 2}
"""Weights by name, and the power of the distance that each divides by."""
LADDER = (1, 3, 5, 7, 9, 11, 15, 21, 31, 51, 75, 101, 151, 201, 301)
MOST_HELD_OUT = 1_000
"""Rows that are left out, one at a time, to choose k."""


@dataclass(eq=False, repr=False)
class NearestVote(GivesProbabilities):
    """The k nearest rows vote for their classes [random-rotation, Lemma 1; principal-laplace, 6.2].

    Distances are exact, and of equally distant rows the first counts, so that the answer depends on nothing but
    distances. Where rows lie exactly on the query and votes are weighted, these rows alone vote.

    Parameters
    ----------
    k : how many rows vote, no more than there are; "cross-validation" takes the one of `LADDER` with the fewest errors
        on up to 1,000 of the rows, each left out of its own vote (of equal ones the smallest).
    weights : "1", "1/d" or "1/d^2".

    Attributes
    ----------
    classes_, n_features_in_ : labels and columns.
    k_ : how many rows vote.

    Examples
    --------
    >>> model = NearestVote(k=1).fit([[0.0], [1.0], [5.0]], ["a", "a", "b"])
    >>> model.predict([[4.0]]).tolist()
    ['b']
    """

    k: int | str = 11
    weights: str = "1/d"

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Keep the rows, and choose k where that is asked for."""
        if self.weights not in POWERS:
            raise ValueError(f"The 'weights' parameter must be one of {', '.join(POWERS)}. Got {self.weights!r}.")
        if self.k != BY_VALIDATION and not (isinstance(self.k, int | np.integer) and self.k >= 1):
            raise ValueError(f"The 'k' parameter must be a count of rows or {BY_VALIDATION}. Got {self.k!r} instead.")
        X, y = rows_and_targets(self, X, y)
        self.classes_, self.codes_ = np.unique(y, return_inverse=True)
        self.rows_ = np.ascontiguousarray(X)
        self.k_ = min(int(self.k), len(self.rows_)) if self.k != BY_VALIDATION else self._best_k()
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """The share of every class in the votes."""
        check_is_fitted(self)
        queries = np.ascontiguousarray(matrix_of_rows(self, X))
        distance, index = nearest(queries, self.rows_, self.k_)
        votes = self._votes(distance, index)
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))

    def _votes(self, distance: Floats, index: Codes) -> Floats:
        votes = np.zeros((len(distance), len(self.classes_)))
        np.add.at(votes, (np.arange(len(distance))[:, None], self.codes_[index]), self._weights(distance))
        return votes

    def _weights(self, distance: Floats) -> Floats:
        """Over the nearest, so that none is infinite; rows at distance zero leave nothing to the others."""
        power = POWERS[self.weights]
        if power == 0 or distance.shape[1] == 0:
            return np.ones_like(distance)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = (distance[:, :1] / distance) ** power
        return np.where(distance[:, :1] > 0, weight, distance == 0)

    def _best_k(self) -> int:
        """The rows left out are as noisy as the others: all that a holder of the release alone can do."""
        ladder = [k for k in LADDER if k < len(self.rows_)]
        if not ladder:
            return 1
        held = np.random.default_rng(0).permutation(len(self.rows_))[:MOST_HELD_OUT]
        distance, index = nearest(self.rows_[held], self.rows_, ladder[-1] + 1)
        others = index != held[:, None]
        others[others.all(axis=1), -1] = False  # twins pushed the row itself out: drop the last instead
        shape = (len(held), ladder[-1])
        distance, index = distance[others].reshape(shape), index[others].reshape(shape)
        wrong = [
            np.count_nonzero(self._votes(distance[:, :k], index[:, :k]).argmax(axis=1) != self.codes_[held])
            for k in ladder
        ]
        return ladder[int(np.argmin(wrong))]
