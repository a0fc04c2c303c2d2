"""What is believed of every column where the map is no line, or where numbers share noise beside categories.

The bits of a survey and a release in stages are of the first kind.
The likelihood of everybody on the list is exact. Beliefs about a number are smoothed afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import Knowledge, KnownNoise
from sfumato.attacks.column_beliefs import LEAST, best_guess
from sfumato.attacks.like_people import Likely
from sfumato.attacks.likelihood import Suspects, log_likelihood, normalised
from sfumato.attacks.people_posterior import Placed
from sfumato.attacks.support import Support
from sfumato.channels import draw

EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""


class ListedBeliefs:
    """People of one class as they are."""

    def __init__(self, known: Knowledge, people: Likely, cells: int, noise: KnownNoise | None = None) -> None:
        """`noise`: that of the class, where classes differ."""
        self.known, self.log_prior, self.noise = known, people.log_prior, noise or known.noise
        self.suspects = Suspects.of(known, people.X)
        self.groups = known.encoding.groups
        self.supports = [Support.of_group(group, cells) for group in self.groups]
        self.at = [one.places(people.X[:, group.slice]) for one, group in zip(self.supports, self.groups, strict=True)]
        self.placed = Placed.of(self.at, [len(one.values) for one in self.supports], people.log_prior)
        self.spreads = [float(people.X[:, group.start].std()) for group in self.groups]
        self.smoothing: list[Matrix] = []

    @property
    def people(self) -> int:
        return len(self.suspects.X)

    def smooth(self, share: float) -> None:
        """Set how far a person's numbers stand for others; categories stay as they are."""
        pairs = zip(self.supports, self.spreads, strict=True)
        self.smoothing = [support.smoothing(share * spread, 0.0) for support, spread in pairs]

    def told(self, Z: Matrix) -> list[Any]:
        """The log-weights of all people, given these rows."""
        return [log_likelihood(self.known, Z, self.suspects, EXACT_WIDTH, self.noise) + self.log_prior]

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released as the channels would."""
        assert self.noise is not None
        return draw(self.noise.channels, np.array(self.suspects.given[own]), rng)

    def fit(self, Z: Matrix, told: Sequence[Any], own: Codes) -> float:
        """How much is believed of the truth behind simulated rows, in logarithms, by a list without these people."""
        log = told[0].copy()
        log[np.arange(len(own)), own] = -np.inf
        beliefs = self._beliefs(log)
        found = [belief[np.arange(len(Z)), at[own]] for belief, at in zip(beliefs, self.at, strict=True)]
        return float(np.log(np.maximum(found, LEAST)).sum())

    def _beliefs(self, log: Matrix) -> list[Matrix]:
        weights = normalised(log)
        nobody = np.isnan(weights[:, 0])
        if nobody.any():
            weights[nobody] = normalised(self.log_prior[None])
        at_places = self.placed.at_places(np.ascontiguousarray(weights.T, dtype=np.float32))
        return [np.asarray(here @ S) for here, S in zip(at_places, self.smoothing, strict=True)]

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> None:
        """Fill `out` with the best guesses, `mean` with posterior means, `sure` with how sure each guess is."""
        for number, belief in enumerate(self._beliefs(self.told(Z)[0])):
            group, support = self.groups[number], self.supports[number]
            out[:, group.slice], sure[:, number] = best_guess(belief, support, group, tolerance)
            mean[:, group.slice] = belief @ support.values
