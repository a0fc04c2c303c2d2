"""Membership: was this person in the table at all?"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Matrix, MembershipScores
from sfumato.attacks.likelihood import blocks, embed, log_likelihood
from sfumato.attacks.observation import noise_mean, noise_weights
from sfumato.neighbours import nearest


class Membership(Attack):
    """The adversary holds the records of some people and asks of each whether the table had them in it.

    `statistic="likelihood"`: how well the release as a whole is explained by the person, log of the mean over release
    rows z of f(z - (A x + c)) under the known noise law. `statistic="distance"`, and whenever a column is exact or no
    law is known: how near the nearest release row is.
    """

    name = "membership"
    knows = frozenset({"release", "candidates"})
    helps = frozenset({"transform", "noise", "noise_covariance"})

    def __init__(self, statistic: Literal["likelihood", "distance"] = "likelihood") -> None:
        self.statistic = statistic

    def guess(self, known: Knowledge) -> Guess:
        """A score per candidate, higher for people who seem to be in the table."""
        if not known.columnwise and known.transform is None:
            return Abstain("needs the transform of a release that mixes columns")
        assert known.candidates is not None
        people = embed(known, known.candidates)
        lawful = known.noise is not None and all(law is not None for law in known.noise)
        if self.statistic == "likelihood" and lawful:
            return MembershipScores(mean_likelihood(known, people))
        weights = noise_weights(known)
        distance, _ = nearest((people + noise_mean(known)) * weights, known.release * weights, k=1)
        return MembershipScores(-distance[:, 0])


def mean_likelihood(known: Knowledge, people: Matrix) -> Matrix:
    """log mean over release rows of f(z | person), up to a constant; impossible people share the lowest score."""
    scores = np.empty(len(people))
    for block in blocks(len(people), len(known.release)):
        log = log_likelihood(known, known.release, people[block], exact_width=1.0)
        top = log.max(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            scores[block] = top + np.log(np.exp(log - top).mean(axis=0))
    possible = np.isfinite(scores)
    floor = scores[possible].min() - 1.0 if possible.any() else 0.0
    return np.where(possible, scores, floor)
