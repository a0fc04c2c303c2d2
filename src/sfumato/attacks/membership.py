"""Membership: was this person in the table at all?"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

import numpy as np

from sfumato.accepted import Word
from sfumato.array_types import Matrix
from sfumato.attacks.base import LINKABILITY, Abstain, Attack, Guess, Knowledge, MembershipScores
from sfumato.attacks.gaps import nearest_reported
from sfumato.attacks.likelihood import embed
from sfumato.attacks.observation import noise_weights
from sfumato.attacks.row_ratios import MOST_COMPARED, Ratios, has_law, visit_ratios


class Membership(Attack):
    """The adversary holds the records of some people and asks of each whether they were in the table.

    By likelihood, where the noise has a law: how much likelier the release is if one of its rows is the person's than
    if none is, the mean over its rows z of f(z | x) / f(z), with the law of the row's class. f(z) is the mean over all
    the people he can think of: the candidates, and a `sample` where he has one. By distance: how near the nearest
    release row is, in units of the noise. Which of the two tells more is not known beforehand. With `statistic="best"`
    both are tried on one half of the candidates, and the better one is scored on the other half.

    Parameters
    ----------
    statistic : {"best", "likelihood", "distance"}, default="best"
        What is compared.
    """

    name = "membership"
    risk = LINKABILITY
    reads_gaps = True
    knows = frozenset({"release", "candidates"})
    helps = frozenset(
        {
            "transform",
            "noise",
            "noise_covariance",
            "labels",
            "candidate_labels",
            "sample",
            "sample_labels",
            "guided",
        }
    )
    accepts = MappingProxyType({"statistic": Word(("best", "likelihood", "distance"))})

    def __init__(self, statistic: Literal["best", "likelihood", "distance"] = "best") -> None:
        self.statistic = statistic

    def guess(self, known: Knowledge) -> Guess:
        """A score per candidate, higher for people who seem to be in the table."""
        if not known.columnwise and known.transform is None and known.guided is None:
            return Abstain("needs the transform of a release that mixes columns")
        assert known.candidates is not None
        lawful = has_law(known, len(known.candidates), MOST_COMPARED)
        placed = known.guided is None  # where a person would lie in the release
        if lawful and (self.statistic == "likelihood" or not placed):
            return MembershipScores(log_likelihood_ratio(known), "likelihood")
        if not placed:
            return Abstain("the release has no distances, and is too large for likelihoods")
        near = nearness(known)
        if not lawful or self.statistic == "distance":
            return MembershipScores(near, "distance")
        return MembershipScores(log_likelihood_ratio(known), "likelihood", {"distance": near})


def nearness(known: Knowledge) -> Matrix:
    """Per candidate minus the distance of the nearest release row, every column in units of its noise."""
    assert known.candidates is not None
    weights = noise_weights(known)
    distance, _ = nearest_reported(embed(known, known.candidates) * weights, known.release * weights)
    return -distance[:, 0]


def log_likelihood_ratio(known: Knowledge) -> Matrix:
    """Per candidate the log of the mean over release rows of f(z | x) / f(z); impossible people share the lowest."""
    assert known.candidates is not None
    scores = np.full(len(known.candidates), -np.inf)

    def visit(ratios: Ratios) -> None:
        scores[ratios.people] = np.logaddexp(scores[ratios.people], ratios.sums())

    visit_ratios(known, known.candidates, known.candidate_labels, visit)
    scores -= np.log(len(known.release))
    possible = np.isfinite(scores)
    floor = scores[possible].min() - 1.0 if possible.any() else 0.0
    return np.where(possible, scores, floor)
