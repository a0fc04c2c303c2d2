"""The paper's other classifiers: distance-weighted nearest neighbours, k = 5 or the best k by cross-validation."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

from sfumato.core.array_types import Codes, Matrix

LADDER = (1, 3, 5, 7, 9, 11, 15, 21, 31, 51, 75, 101, 151, 201, 301)
MOST_HELD_OUT = 1000
"""Rows left out in cross-validation, one at a time; all of them where there are no more."""


class NeighbourLadder:
    """Weights 1/d^2 [Eq. 11] for all k of a ladder at once: the k nearest are the first k of the most."""

    def __init__(self, rows: Matrix, codes: Codes) -> None:
        self.rows, self.codes = rows, codes
        self.ladder = tuple(k for k in LADDER if k < len(rows))
        self.search = NearestNeighbors(algorithm="brute").fit(rows)

    def predict(self, queries: Matrix) -> Codes:
        """One row of predictions for every k of the ladder."""
        distance, index = self.search.kneighbors(queries, self.ladder[-1])
        return self._vote(distance, index)

    def held_out(self, rng: np.random.Generator) -> Matrix:
        """Accuracy of every k on released rows that are left out one at a time; higher is better.

        This is all that a miner can do who holds the release alone: the rows left out are as noisy as the others.
        """
        held = rng.permutation(len(self.rows))[:MOST_HELD_OUT]
        distance, index = self.search.kneighbors(self.rows[held], self.ladder[-1] + 1)
        others = index != held[:, None]
        others[others.all(axis=1), -1] = False  # twins pushed the row itself out: drop the last instead
        shape = (len(held), self.ladder[-1])
        predicted = self._vote(distance[others].reshape(shape), index[others].reshape(shape))
        return np.asarray((predicted == self.codes[held]).mean(axis=1))

    def _vote(self, distance: Matrix, index: Codes) -> Codes:
        nearest = np.maximum(distance[:, :1], 1e-12)
        weight = (nearest / np.maximum(distance, nearest)) ** 2  # over the nearest, so that none is infinite
        votes = np.zeros((len(self.ladder), len(distance), int(self.codes.max()) + 1))
        who = np.arange(len(distance))[:, None]
        for number, (start, stop) in enumerate(zip((0, *self.ladder), self.ladder, strict=False)):
            part = slice(start, stop)
            np.add.at(votes[number], (who, self.codes[index[:, part]]), weight[:, part])
        return np.asarray(votes.cumsum(axis=0).argmax(axis=2))


def neighbour_accuracies(
    rows: Matrix, codes: Codes, queries: Matrix, truth: Codes, rng: np.random.Generator
) -> dict[str, float]:
    """Accuracy of the best k by cross-validation and of k = 5, and that k; higher is better."""
    ladder = NeighbourLadder(rows, codes)
    right = (ladder.predict(queries) == truth).mean(axis=1)
    best = int(ladder.held_out(rng).argmax())
    return {
        "best_k": float(right[best]),
        "k": float(ladder.ladder[best]),
        "k5": float(right[ladder.ladder.index(5)]),
    }
