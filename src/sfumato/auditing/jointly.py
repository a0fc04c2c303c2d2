"""Two releases of the same people, attacked together: averaging what they say, and finding who is in one only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from sfumato.attacks import Knowledge, KnownNoise, Values
from sfumato.attacks.bayes_window import BayesWindow, Beliefs
from sfumato.attacks.joint_beliefs import JointBeliefs
from sfumato.attacks.like_people import Likely
from sfumato.attacks.metrics import score_guess
from sfumato.attacks.metrics.privacy import auc
from sfumato.attacks.metrics.scored import ScoredGuess
from sfumato.attacks.support import CELLS
from sfumato.auditing.case import Case, sampled
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import UsageError
from sfumato.core.wording import WORSE_THAN_GUESSING
from sfumato.guarantee.person_hash import PersonHash, Prints
from sfumato.table import Encoding, Schema
from sfumato.table.cell_sets import cell_words
from sfumato.table.filling import MISSING_INSTEAD, column_of
from sfumato.table.statistics import NO_CLASS

FEWEST = 20
"""With fewer people in both, nothing is measured."""
MOST = 500
"""Rows of the first release that are compared with all of the second, for who is in one only."""


class JointWindow(BayesWindow):
    """The adversary holds two releases of the same people, knows which rows belong together, multiplies what the
    channels of both say, and guesses the value that most of its belief lies within the scoring window of."""

    def __init__(
        self,
        other: KnownNoise,
        encoding: Encoding,
        translate: Callable[[Matrix], Matrix],
        first_tells: bool = True,
        people: int = 1000,
    ) -> None:
        super().__init__(people=people)
        self.other, self.encoding, self.translate, self.first_tells = other, encoding, translate, first_tells

    def _beliefs(self, known: Knowledge, people: Likely) -> Beliefs:
        assert known.noise is not None
        noise, other = known.noise.of_class(people.code), self.other.of_class(people.code)
        encodings = (known.encoding, self.encoding)
        return JointBeliefs((noise, other), encodings, people, self.cells, self.translate, self.first_tells)


@dataclass(frozen=True)
class Together:
    """What two releases give away of the people who are in both; all figures are successes of the same attack, with the
    same prior, on the same columns and within the same window."""

    people: int
    first: float
    second: float
    both: float
    baseline: float
    differencing: float | None
    """How well rows of the first whose people are not in the second can be told (0.5: not at all)."""
    missing: int

    def sentences(self) -> list[str]:
        words = [
            f"Two releases, attacked together: {self.people:,} audited people are in both. Bayes' rule with the "
            f"noise of both gets {self.both:.3f} of their values, {self.first:.3f} with this release alone and "
            f"{self.second:.3f} with the other alone; without them {self.baseline:.3f}"
            + (f": {WORSE_THAN_GUESSING}." if self.both < self.baseline else ".")
        ]
        if self.differencing is None:
            words.append("Everybody audited is in both releases, so that there is no difference to find.")
        else:
            words.append(
                f"Differencing: {self.missing:,} audited people of this release are not in the other. Somebody who "
                f"compares all rows of both tells them from the rest with an area under the curve of "
                f"{self.differencing:.3f} (0.5 is guessing, 1 is certain)."
            )
        return words

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def attack_together(one: Case, two: Case, rng: np.random.Generator) -> Together:
    """Attack the people whom both releases have; whose row is whose, the auditor knows from both traces."""
    for each in (one, two):
        _check(each)
    if np.array_equal(one.Z, two.Z, equal_nan=True):
        raise UsageError("Both are the same release: its noise counts once. Give another one of the same people.")
    keys = _keys(one, two)
    own, theirs = _by_row(one, keys[0]), _by_row(two, keys[1])
    usable = np.setdiff1d(np.arange(len(one.Z)), _rows_of(one, one.lent))
    theirs_usable = np.setdiff1d(np.arange(len(two.Z)), _rows_of(two, two.lent))
    found, first, second = np.intersect1d(own[usable], theirs[theirs_usable], return_indices=True)
    if len(found) < FEWEST:
        raise UsageError(
            f"{len(found):,} of the audited people are in both releases; at least {FEWEST} are needed. Give two "
            "releases of the same people, and the original of the other with --with-original if it is another table."
        )
    first, second = usable[first], theirs_usable[second]
    known = one.known_to(BayesWindow())
    aligned = replace(known, release=one.Z[first], labels=None if one.y is None else one.y[first])
    both = replace(aligned, release=np.hstack([one.Z[first], two.Z[second]]))
    translate = translation(one.encoding, two.encoding)
    assert two.noise is not None
    alone = _score(one, known, BayesWindow().guess(aligned), first)
    theirs_alone, together = (
        _score(one, known, JointWindow(two.noise, two.encoding, translate, tells).guess(both), first)
        for tells in (False, True)
    )
    left = ~np.isin(own, keys[1])
    gone = int(left[usable].sum())
    return Together(
        len(found),
        alone.score,
        theirs_alone.score,
        together.score,
        alone.baseline,
        _differencing(one, two, translate, left, usable, rng) if FEWEST <= gone <= len(usable) - FEWEST else None,
        gone,
    )


def translation(first: Encoding, second: Encoding) -> Callable[[Matrix], Matrix]:
    """How an encoded row of the first encoding looks in the second; columns that it lacks are in the middle."""
    shared = {group.column.name for group in first.groups} & {group.column.name for group in second.groups}
    middle = np.concatenate([group.vertices.mean(axis=0) for group in second.groups])

    def translate(X: Matrix) -> Matrix:
        found = np.tile(middle, (len(X), 1))
        table = first.decode(X, like_original=True)
        for group in second.groups:
            if group.column.name in shared:
                alone = Encoding(Schema((group.column,)))
                batch = table.select([group.column.name])
                found[:, group.slice] = alone.encode(batch, unknown=MISSING_INSTEAD).X
        return found

    return translate


def _differencing(
    one: Case, two: Case, translate: Callable[[Matrix], Matrix], left: Flags, usable: Codes, rng: Any
) -> float:
    """Of every row of the first: how likely it is that some row of the second is of the same person."""
    sample = one.known_to(BayesWindow()).sample
    assert sample is not None
    assert one.noise is not None
    assert two.noise is not None
    people = Likely(NO_CLASS, usable, sample, np.zeros(len(sample)))
    beliefs = JointBeliefs((one.noise, two.noise), (one.encoding, two.encoding), people, CELLS, translate)
    rows = usable[sampled(len(usable), MOST, rng)]
    fit = logsumexp(beliefs.same_person(one.Z[rows], two.Z), axis=1)
    return float(auc(-fit[left[rows]], -fit[~left[rows]]))


def _check(case: Case) -> None:
    if case.behind is None or case.nobodys.any() or case.noise is None:
        raise UsageError(
            "To attack two releases together, both need their private match file and a stated noise: give the "
            "owner's folders."
        )
    if not case.columnwise:
        raise UsageError("Two releases can be attacked together if both keep the table's columns. One mixes them.")


def _score(case: Case, known: Knowledge, guess: Any, rows: Codes) -> ScoredGuess:
    """Beside a guesser who has seen the people that the adversary has: without a holdout, those lent to it."""
    truth = replace(case.truth, control=known.sample, control_labels=known.sample_labels)
    labels = None if truth.labels is None else truth.labels[rows]
    if not isinstance(guess, Values):
        raise UsageError("The noise of these releases leaves nothing that could be put together.")
    found = score_guess(guess, replace(truth, rows=truth.rows[rows], labels=labels))
    if not isinstance(found, ScoredGuess):
        raise UsageError(f"The attacker on both releases cannot be judged: {found.reason}.")
    return found


def _rows_of(case: Case, people: Codes) -> Codes:
    assert case.behind is not None
    return np.flatnonzero(np.isin(case.behind, people))


def _by_row(case: Case, keys: Prints) -> Prints:
    """Who is behind every row."""
    assert case.behind is not None
    return keys[case.behind]


def _keys(one: Case, two: Case) -> tuple[Prints, Prints]:
    """The audited people of both tables by the cells that both have: equal for the same person."""
    names = [column.name for column in one.encoding.schema.private if column.name in two.encoding.schema.names]
    if not names:
        raise UsageError("The two releases have no column in common, so that no person can be found in both.")
    hasher = PersonHash(b"audit")  # these are compared here and now, and never kept
    found = []
    for case in (one, two):
        tags = [hasher.tag(name) for name in names]
        prints = [
            hasher.of_rows([cell_words(column_of(batch, name), name) for name in names], tags)
            for batch in case.original.blocks()
        ]
        found.append(np.concatenate(prints)[case.people.numbers])
    return found[0], found[1]
