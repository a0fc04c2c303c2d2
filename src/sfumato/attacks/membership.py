"""Membership: was this person in the table at all?"""

from __future__ import annotations

from types import MappingProxyType
from typing import Literal

import numpy as np

from sfumato.accepted import Word
from sfumato.array_types import Matrix
from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, MembershipScores
from sfumato.attacks.gaps import nearest_reported
from sfumato.attacks.likelihood import Suspects, blocks, log_likelihood
from sfumato.attacks.observation import noise_weights

MOST_COMPARED = 2_000
"""People of the sample beside whom the candidates are judged: more make the comparison slower, not sharper."""
EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""


class Membership(Attack):
    """The adversary holds the records of some people and asks of each whether they were in the table.

    `statistic="likelihood"`: of all the people he can think of (the candidates, and a `sample` where he has one), how
    far the person alone explains some release row z under the known noise law: the largest over z of f(z | x), which is
    f(z - (A x + c)) for added noise, over its sum over all these people. (The mean of f over the rows, which needs no
    comparison, mostly tells who is ordinary.) `statistic="distance"`, and whenever no column has a law: how near the
    nearest release row is.

    Parameters
    ----------
    statistic : {"likelihood", "distance"}, default="likelihood"
        What is compared.
    """

    name = "membership"
    reads_gaps = True
    knows = frozenset({"release", "candidates"})
    helps = frozenset({"transform", "noise", "noise_covariance", "sample", "guided"})
    accepts = MappingProxyType({"statistic": Word(("likelihood", "distance"))})

    def __init__(self, statistic: Literal["likelihood", "distance"] = "likelihood") -> None:
        self.statistic = statistic

    def guess(self, known: Knowledge) -> Guess:
        """A score per candidate, higher for people who seem to be in the table."""
        if not known.columnwise and known.transform is None and known.guided is None:
            return Abstain("needs the transform of a release that mixes columns")
        assert known.candidates is not None
        people = Suspects.of(known, known.candidates)
        lawful = known.noise is not None and not known.noise.is_exact
        if self.statistic == "likelihood" and lawful:
            return MembershipScores(largest_responsibility(known, people))
        weights = noise_weights(known)
        distance, _ = nearest_reported(people.E * weights, known.release * weights)
        return MembershipScores(-distance[:, 0])


def largest_responsibility(known: Knowledge, people: Suspects) -> Matrix:
    """Per person the largest log share of a release row's likelihood; impossible people share the lowest score."""
    count, everybody = len(people.X), people
    if known.sample is not None:
        everybody = Suspects.of(known, np.vstack([people.X, known.sample[:MOST_COMPARED]]))
    scores = np.full(count, -np.inf)
    for block in blocks(len(known.release), len(everybody.X)):
        log = log_likelihood(known, known.release[block], everybody, exact_width=EXACT_WIDTH)
        possible = np.isfinite(log.max(axis=1))
        if possible.any():
            log = log[possible]
            share = log[:, :count] - _logsumexp(log)
            scores = np.maximum(scores, share.max(axis=0))
    possible = np.isfinite(scores)
    floor = scores[possible].min() - 1.0 if possible.any() else 0.0
    return np.where(possible, scores, floor)


def _logsumexp(log: Matrix) -> Matrix:
    """Per row the logarithm of the sum of exponentials, as a column."""
    top = log.max(axis=1, keepdims=True)
    return np.asarray(top + np.log(np.exp(log - top).sum(axis=1, keepdims=True)))
