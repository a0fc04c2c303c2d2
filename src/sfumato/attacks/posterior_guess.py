"""The likeliest answer to every question of a guided survey, by exact posteriors."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from sfumato.accepted import Whole
from sfumato.array_types import Matrix
from sfumato.attacks.base import Abstain, Attack, Guess, Knowledge, Values
from sfumato.attacks.likelihood import Suspects, blocks, log_likelihood, normalised
from sfumato.attacks.posterior_breach import spread_out
from sfumato.channels import Guided

EXACT_WIDTH = 0.01
"""What stands for the noise of an exact column beside noisy ones, in encoded units."""


class PosteriorGuess(Attack):
    """The adversary collects a guided survey: it knows guidance and floor, and how people usually answer. To
    everybody's bits it applies Bayes' rule over all people it can think of, and guesses the likeliest choices.

    The posterior is exact for the population it is given, since the law of the bits is public: weight of an answer t
    is prod_j q_j(t)^R_j (1 - q_j(t))^(1 - R_j) [guided-survey, Eqs 7 and 8]. `rows` people stand for the population.
    `details` tell how sure the collector is of its guesses.

    Parameters
    ----------
    rows : int, default=4000
        People who stand for the population, from 2 to 1,000,000.
    """

    name = "posterior-guess"
    reads_gaps = True
    knows = frozenset({"release", "guided", "noise", "sample"})
    accepts = MappingProxyType({"rows": Whole(2, 1_000_000)})

    def __init__(self, rows: int = 4000) -> None:
        self.rows = rows

    def guess(self, known: Knowledge) -> Guess:
        """Per release row and question, the choice of highest posterior probability."""
        assert known.sample is not None
        if not isinstance(known.guided, Guided):
            return Abstain("the release has stages, and is no guided survey")
        people, counts = np.unique(np.rint(spread_out(known.sample, self.rows)), axis=0, return_counts=True)
        prior = np.log(counts / counts.sum())
        suspects = Suspects.of(known, people)
        out = np.zeros((len(known.release), known.encoding.width))
        sure = np.empty((len(out), len(known.encoding.groups)))
        for block in blocks(len(out), len(people)):
            weights = normalised(log_likelihood(known, known.release[block], suspects, EXACT_WIDTH) + prior)
            chances = weights @ people
            for number, group in enumerate(known.encoding.groups):
                sure[block, number] = _choose(chances[:, group.slice], out[block, group.slice])
        details = {"mean_sureness": float(sure.mean()), "largest_sureness": float(sure.max(initial=0.0))}
        return Values(out, details=details)


def _choose(chances: Matrix, out: Matrix) -> Matrix:
    """Set the likeliest choice of every row to 1; returns how likely it is."""
    best = chances.argmax(axis=1)
    out[np.arange(len(out)), best] = 1.0
    return np.asarray(chances[np.arange(len(out)), best])
