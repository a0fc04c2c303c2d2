"""How much better a person explains a released row than the population does: f(z | x) / f(z).

If one row of a release is x's and the others are anybody's, this ratio of row z is how likely it is that z is x's, up
to a factor that all rows share. And its mean over the rows is the likelihood ratio of "x is in the table".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from sfumato.attacks.base import LINKABILITY, Abstain, Attack, Guess, Knowledge, MembershipScores, promised
from sfumato.attacks.column_beliefs import released_classes
from sfumato.attacks.likelihood import Suspects, embed, first_of_largest, noise_weights, visit_likelihoods
from sfumato.attacks.support import nearest_reported
from sfumato.core.accepted import Word
from sfumato.core.array_types import Codes, Matrix
from sfumato.mechanisms.parameters import parameter
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.neighbours.nearest import chosen

MOST_COMPARED = 2_000
"""People of the sample who stand for the population: more make the comparison slower, not sharper."""
MOST_CELLS = 2_000_000_000
"""Rows times people times columns up to which likelihoods are computed; beyond, distances are taken."""
TIMES_ON_A_DEVICE = 500
"""So many times more are computed on a device."""


class Ratios(NamedTuple):
    """Of some release rows (`rows`) and some people (`people`), log f(z | x) - log f(z), rows x people.

    The matrix `log` lies where `arrays` works.
    """

    rows: Codes
    people: Codes
    log: Any
    arrays: Arrays

    def best(self) -> tuple[Codes, Matrix]:
        """Of every person the place of the row with the largest ratio (the first of equals), and the ratio."""
        place, value = first_of_largest(self.arrays, self.log, axis=0)
        return self.arrays.get(place), self.arrays.get(value)

    def sums(self) -> Matrix:
        """Of every person the log of the sum of all ratios."""
        return self.arrays.get(log_sum(self.log, axis=0, xp=self.arrays.namespace))


def has_law(known: Knowledge, people: int, others: int = 0) -> bool:
    """Whether likelihoods can be computed: the noise has a law, there is some, and the table is not too large."""
    if known.noise is None or known.noise.is_exact or not all(one.is_stated for one in known.noise.channels):
        return False
    if not known.columnwise and known.transform is None and known.guided is None:
        return False
    most = MOST_CELLS * (1 if chosen() is None else TIMES_ON_A_DEVICE)
    return bool(len(known.release) * (people + others) * known.release.shape[1] <= most)


def visit_ratios(known: Knowledge, X: Matrix, labels: Codes | None, visit: Callable[[Ratios], None]) -> None:
    """Block by block; reads `noise`, `transform`, `guided`, `labels`, `sample` and `sample_labels`.

    `X` are the people asked about, `labels` their classes where they are known. Together with the sample they stand for
    the population, everybody once: a person who counted twice would seem to explain less. People whose class the
    released label rules out are left out of its rows; each class has its own law.

    A block that does not fit a device is visited again in parts: `visit` keeps what it found when it is done with it.
    """
    others, other_labels = _others(known, X)
    everybody = Suspects.of(known, np.vstack([X, others]))
    classes = None
    if known.labels is not None and labels is not None and (other_labels is not None or not len(others)):
        classes = labels if other_labels is None else np.concatenate([labels, other_labels])

    def take(rows: Codes, asked: Codes, block: slice, log: Any, arrays: Arrays) -> None:
        xp, here = arrays.namespace, rows[block]
        possible = np.isfinite(arrays.get(xp.amax(log, axis=1)))
        if not possible.any():
            return
        if not possible.all():
            here, log = here[possible], log[arrays.put(np.flatnonzero(possible))]
        usual = log_sum(log, axis=1, xp=xp) - np.log(len(everybody.X))
        visit(Ratios(here, asked, log[:, : len(asked)] - usual[:, None], arrays))

    for code, rows, told in released_classes(known, classes, len(everybody.X)):
        possible = np.flatnonzero(np.isfinite(told))
        asked = possible[possible < len(X)]
        if len(asked):
            suspects = Suspects(*(part[possible] for part in everybody))
            noise = promised(known.noise).of_class(code)
            visit_likelihoods(known, rows, suspects, noise, told[possible], partial(take, rows, asked))


def _others(known: Knowledge, X: Matrix) -> tuple[Matrix, Codes | None]:
    """People of the sample who are not among those asked about."""
    if known.sample is None or not len(known.sample):
        return X[:0], None
    _, code = np.unique(np.round(np.vstack([X, known.sample]), 9), axis=0, return_inverse=True)
    code = code.reshape(-1)
    kept = np.flatnonzero(~np.isin(code[len(X) :], code[: len(X)]))[:MOST_COMPARED]
    return known.sample[kept], None if known.sample_labels is None else known.sample_labels[kept]


def log_sum(log: Any, axis: int, xp: Any = np) -> Any:
    """The logarithm of the sum of exponentials; -inf where all are. `xp`: the library whose array this is."""
    top = xp.amax(log, axis=axis, keepdims=True)
    safe = xp.where(xp.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return (safe + xp.log(xp.exp(log - safe).sum(axis=axis, keepdims=True))).squeeze(axis)


class Membership(Attack):
    """The adversary holds the records of some people and asks of each whether they were in the table.

    By likelihood, where the noise has a law: how much likelier the release is if one of its rows is the person's than
    if none is, the mean over its rows z of f(z | x) / f(z), with the law of the row's class. f(z) is the mean over all
    the people he can think of: the candidates, and a `sample` where he has one. By distance: how near the nearest
    release row is, in units of the noise. Which of the two tells more is not known beforehand. With `statistic="best"`
    both are tried on one half of the candidates, and the better one is scored on the other half.
    """

    name = "membership"
    risk = LINKABILITY
    reads_gaps = True
    knows = frozenset({"release", "candidates"})
    helps = frozenset(
        {"transform", "noise", "noise_covariance", "labels", "candidate_labels", "sample", "sample_labels", "guided"}
    )
    statistic: Literal["best", "likelihood", "distance"] = parameter(
        Word(("best", "likelihood", "distance")), "What is compared.", default="best"
    )

    def guess(self, known: Knowledge) -> Guess:
        lawful = has_law(known, len(promised(known.candidates)), MOST_COMPARED)
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
    weights = noise_weights(known)
    distance, _ = nearest_reported(embed(known, promised(known.candidates)) * weights, known.release * weights)
    return -distance[:, 0]


def log_likelihood_ratio(known: Knowledge) -> Matrix:
    """Per candidate the log of the mean over release rows of f(z | x) / f(z); impossible people share the lowest."""
    candidates = promised(known.candidates)
    scores = np.full(len(candidates), -np.inf)

    def visit(ratios: Ratios) -> None:
        scores[ratios.people] = np.logaddexp(scores[ratios.people], ratios.sums())

    visit_ratios(known, candidates, known.candidate_labels, visit)
    scores -= np.log(len(known.release))
    possible = np.isfinite(scores)
    return np.where(possible, scores, scores[possible].min() - 1.0 if possible.any() else 0.0)
