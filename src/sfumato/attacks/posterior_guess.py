"""The likeliest answer to every question of a guided survey, by exact posteriors."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values
from sfumato.attacks.like_people import Likely, likely_people
from sfumato.attacks.likelihood import Suspects, blocks, log_likelihood, normalised
from sfumato.channels import Guided
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Matrix

EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""


class PosteriorGuess(Attack):
    """The adversary collects a guided survey: it knows guidance and floor, and how people usually answer. To
    everybody's bits it applies Bayes' rule over all people it can think of, and guesses the likeliest choices.

    The posterior is exact for the population it is given, since the law of the bits is public: weight of an answer t
    is prod_j q_j(t)^R_j (1 - q_j(t))^(1 - R_j) [guided-survey, Eqs 7 and 8]. `rows` people of the
    released class stand for the population. `details` tell how sure the collector is of its guesses.

    Parameters
    ----------
    rows : int, default=4000
        People who stand for the population, from 2 to 1,000,000.
    """

    name = "posterior-guess"
    reads_gaps = True
    knows = frozenset({"release", "guided", "noise", "sample"})
    helps = frozenset({"labels", "sample_labels"})
    accepts = MappingProxyType({"rows": Whole(2, 1_000_000)})

    def __init__(self, rows: int = 4000) -> None:
        self.rows = rows

    def guess(self, known: Knowledge) -> Guess:
        """Per release row and question, the choice of highest posterior probability."""
        if not isinstance(known.guided, Guided):
            return Abstain("the release has stages, and is no guided survey")
        out = np.zeros((len(known.release), known.encoding.width))
        sure = np.empty((len(out), len(known.encoding.groups)))
        for likely in likely_people(known, self.rows):
            people, prior = _equals_together(likely)
            suspects = Suspects.of(known, people)
            for block in blocks(len(likely.rows), len(people)):
                rows = likely.rows[block]
                weights = normalised(log_likelihood(known, known.release[rows], suspects, EXACT_WIDTH) + prior)
                chances = weights @ people
                for number, group in enumerate(known.encoding.groups):
                    best = chances[:, group.slice].argmax(axis=1)
                    out[rows, group.start + best] = 1.0
                    sure[rows, number] = chances[np.arange(len(rows)), group.start + best]
        details = {"mean_sureness": float(sure.mean()), "largest_sureness": float(sure.max(initial=0.0))}
        return Values(out, details=details)


def _equals_together(likely: Likely) -> tuple[Matrix, Matrix]:
    """Different people, and the log of how likely each is before the release."""
    people, place = np.unique(np.rint(likely.X), axis=0, return_inverse=True)
    weights = np.bincount(place.reshape(-1), weights=np.exp(likely.log_prior - likely.log_prior.max()))
    return people, np.log(weights / weights.sum())
