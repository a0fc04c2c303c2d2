"""What is believed of every column where the map is no line, or where numbers share noise beside categories.

The bits of a survey and a release in stages are of the first kind. A row tells of all columns at once, so smoothed
people are drawn (`made_up`), and each has its exact likelihood. Smoothing beliefs after taking likelihoods of the
listed people instead would leave out everybody between them, who may fit a row far better: where a row tells much,
nobody on the list does.
"""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import Knowledge, KnownNoise
from sfumato.attacks.column_beliefs import LEAST, best_guess
from sfumato.attacks.like_people import Likely, made_up
from sfumato.attacks.likelihood import Suspects, log_likelihood, normalised, released
from sfumato.attacks.people_posterior import Placed
from sfumato.attacks.support import Support

EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""
MADE_UP = 8_000
"""People drawn of a class, whose numbers stand for others within `ABOUT` of the column's spread."""
ABOUT = 0.1


class ListedBeliefs:
    """People of one class, smoothed by drawing people like them."""

    def __init__(self, known: Knowledge, people: Likely, cells: int, noise: KnownNoise | None = None) -> None:
        """`noise`: that of the class, where classes differ."""
        noise = noise or known.noise
        assert noise is not None
        self.known, self.listed, self.noise = known, people, noise
        self.groups = known.encoding.groups
        self.supports = [Support.of_group(group, cells) for group in self.groups]
        spreads = [float(people.X[:, group.start].std()) for group in self.groups]
        self.smoothing = [one.smoothing(ABOUT * wide, 0.0) for one, wide in zip(self.supports, spreads, strict=True)]
        self.smooth(0.0)

    @property
    def people(self) -> int:
        return len(self.after)

    def smooth(self, share: float) -> None:
        """Set how far a person's numbers stand for others; categories stay as they are."""
        rng = np.random.default_rng(0)  # the adversary's own draws; a guess is a function of what is known
        X, self.after = made_up(self.listed.X, self.groups, share, MADE_UP, rng)
        self.log_prior = self.listed.log_prior[self.after]
        self.suspects = Suspects.of(self.known, X)
        self.placed = Placed.of(self._places(X), [len(one.values) for one in self.supports], self.log_prior)

    def _places(self, X: Matrix) -> list[Codes]:
        return [one.places(X[:, group.slice]) for one, group in zip(self.supports, self.groups, strict=True)]

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released as they would be."""
        return released(self.known, self.noise, self.listed.X[own], rng)

    def fit(self, Z: Matrix, own: Codes) -> float:
        """How much is believed of the truth behind simulated rows, in logarithms, by a list without these people."""
        beliefs, places = self._beliefs(Z, own), self._places(self.listed.X[own])
        found = [belief[np.arange(len(Z)), at] for belief, at in zip(beliefs, places, strict=True)]
        return float(np.log(np.maximum(found, LEAST)).sum())

    def _beliefs(self, Z: Matrix, without: Codes | None = None) -> list[Matrix]:
        """Per column rows x values; `without`: of each row the person who, with all made after it, is left out."""
        log = log_likelihood(self.known, Z, self.suspects, EXACT_WIDTH, self.noise) + self.log_prior
        if without is not None:
            log[without[:, None] == self.after] = -np.inf
        weights = normalised(log)
        nobody = np.isnan(weights[:, 0])
        if nobody.any():
            weights[nobody] = normalised(self.log_prior[None])
        at_places = self.placed.at_places(np.ascontiguousarray(weights.T, dtype=np.float32))
        return [np.asarray(here @ S) for here, S in zip(at_places, self.smoothing, strict=True)]

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> None:
        """Fill `out` with the best guesses, `mean` with posterior means, `sure` with how sure each guess is."""
        for number, belief in enumerate(self._beliefs(Z)):
            group, support = self.groups[number], self.supports[number]
            out[:, group.slice], sure[:, number] = best_guess(belief, support, group, tolerance)
            mean[:, group.slice] = belief @ support.values
