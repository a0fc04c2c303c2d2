"""Score of predicates that are to single people out."""

from __future__ import annotations

import numpy as np
from scipy.stats import hypergeom

from sfumato.array_types import Codes, Matrix
from sfumato.attacks.predicates import OPEN, Predicates, Sorted
from sfumato.metrics.privacy import proportion_interval
from sfumato.metrics.scored import ScoredGuess, Truth
from sfumato.table import Encoding

FEWEST = 10
"""Bets that a share can rest on: where fewer could be made, the others are lost."""


def score_predicates(guess: Predicates, truth: Truth) -> ScoredGuess:
    """Share of predicates that are true of exactly one person of the table; fewer than ten count as ten.

    baseline: predicates over as many columns, drawn without the release. control: the share that single out one of as
    many people who are not in the table. Where there are fewer of them, success on as many people of the table and on
    these is compared, and the score changed in that proportion. worst: of the 1% of people singled out most often, the
    share who are singled out at all.
    """
    made = max(len(guess), FEWEST)
    people = truth.rows if truth.register is None else truth.register
    records = Sorted(people)
    counts = guess.counts(records)
    alone = np.flatnonzero(counts == 1)
    hits = np.zeros(len(people))
    np.add.at(hits, guess.first_true(records, alone), 1.0)
    most = np.argsort(-hits, kind="stable")[: max(1, round(truth.share * len(people)))]
    score = len(alone) / made
    details = {"predicates": float(len(guess)), "people_singled_out": float(np.count_nonzero(hits))}
    return ScoredGuess(
        score=score,
        baseline=np.count_nonzero(_unseen(guess, truth.encoding).counts(records) == 1) / made,
        control=_control(guess, counts, made, len(people), truth.control),
        interval=proportion_interval(float(len(alone)), made),
        worst=float(np.mean(hits[most] > 0)),
        riskiest=tuple(most[hits[most] > 0].tolist()),
        details=details,
    )


def _control(guess: Predicates, counts: Codes, made: int, people: int, strangers: Matrix | None) -> float | None:
    if strangers is None or len(strangers) < 2:
        return None
    theirs = guess.counts(strangers)
    if len(strangers) >= people:  # the chance that exactly one of so many, drawn from all of them, meets it
        return float(hypergeom.pmf(1, len(strangers), theirs, people).sum()) / made
    on_as_many = float(hypergeom.pmf(1, people, counts, len(strangers)).sum())
    score = np.count_nonzero(counts == 1) / made
    return min(1.0, score * np.count_nonzero(theirs == 1) / on_as_many) if on_as_many else 0.0


def _unseen(guess: Predicates, encoding: Encoding) -> Predicates:
    """Predicates of the same shape by somebody who knows the columns and their ranges alone."""
    rng = np.random.default_rng(0)  # fixed: scoring twice gives the same figure
    groups = encoding.groups
    shape = guess.slots.shape
    chosen = rng.random((shape[0], len(groups))).argsort(axis=1)[:, : shape[1]]
    slots, low, high = np.empty(shape), np.empty(shape), np.empty(shape)
    value, above = rng.random(shape), rng.random(shape) < 0.5
    for number, group in enumerate(groups):
        at = np.nonzero(chosen == number)
        if group.is_onehot:
            slots[at] = group.start + rng.integers(group.width, size=len(at[0]))
            low[at], high[at] = 0.5, OPEN
        else:
            slots[at] = group.start
            low[at], high[at] = np.where(above[at], value[at], -OPEN), np.where(above[at], OPEN, value[at])
    return Predicates(slots.astype(np.int64), low, high)
