"""Linkage: which release row is this person's?"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from sfumato.accepted import Either, Nothing, Several, Whole
from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import LINKABILITY, Abstain, Attack, Guess, Knowledge, Links
from sfumato.attacks.device_likelihood import below
from sfumato.attacks.gaps import nearest_reported
from sfumato.attacks.likelihood import embed
from sfumato.attacks.observation import noise_weights, own_columns, reversed_release
from sfumato.attacks.row_ratios import MOST_COMPARED, Ratios, has_law, visit_ratios


class NearestRow(Attack):
    """The adversary holds original records of people in the table and looks for the release row that is likeliest to be
    each person's.

    Where the noise has a law, that is the row z with the largest f(z | x) / f(z): how well the person explains it, by
    the law of the row's class, over how well anybody does. The others whose records he holds, and a `sample`, stand for
    anybody. Else it is the row that lies nearest to the record. He carries the record into the release's space when he
    knows the transform, and counts a difference in a column for less the more noise that column has. `columns` names
    the positions (in the schema's private columns) of what he holds of the record; None: all of it. With only some
    columns of a release that mixes them, he turns the transform back and compares in the source space. The same attack
    on people who were not in the table says how near a stranger comes.

    Parameters
    ----------
    columns : list of int or null, default=null
        Positions of the columns that are known, from 0; null for all.
    """

    name = "nearest-row"
    risk = LINKABILITY
    reads_gaps = True
    knows = frozenset({"release", "targets"})
    helps = frozenset(
        {
            "transform",
            "noise",
            "noise_covariance",
            "column_moments",
            "labels",
            "target_labels",
            "sample",
            "sample_labels",
            "guided",
        }
    )
    accepts = MappingProxyType({"columns": Either((Several(Whole(0, 100_000)), Nothing()))})

    def __init__(self, columns: Sequence[int] | None = None) -> None:
        self.columns = columns

    def guess(self, known: Knowledge) -> Guess:
        """The likeliest, or nearest, release row of every target."""
        if not known.columnwise and known.transform is None and known.guided is None:
            return Abstain("needs the transform of a release that mixes columns")
        assert known.targets is not None
        whole = self.columns is None and not np.isnan(known.targets).any()
        if whole and has_law(known, len(known.targets), MOST_COMPARED):
            return likeliest_rows(known)
        if known.guided is not None:
            return Abstain("needs the whole record, and a release that is not too large for likelihoods")
        if whole:
            weights = noise_weights(known)
            queries, rows = embed(known, known.targets) * weights, known.release * weights
        else:
            held = held_slots(known, self.columns)
            if not len(held):
                return Abstain("needs at least one column of the target's record")
            rows = comparable_rows(known)[:, held]
            weights = comparable_weights(known)[held]
            queries, rows = known.targets[:, held] * weights, rows * weights
        distance, index = nearest_reported(queries, rows)
        return Links(index[:, 0].astype(np.int64), distance[:, 0])


def likeliest_rows(known: Knowledge) -> Links:
    """Per target the row with the largest f(z | x) / f(z), and minus the log of its share of all rows' ratios.

    Somebody who can be behind no row at all is given the first one, in more doubt than anybody else.
    """
    assert known.targets is not None
    found = _Likeliest(len(known.targets))
    visit_ratios(known, known.targets, known.target_labels, found.visit)
    possible = np.isfinite(found.best)
    doubt = np.where(possible, found.total, 0.0) - np.where(possible, found.best, 0.0)
    doubt[~possible] = doubt.max(initial=0.0) + 1.0
    return Links(found.index, np.maximum(doubt, 0.0), by_likelihood=True)


class _Likeliest:
    """Per target the likeliest row so far, the first of equals, and the log of the sum of all ratios."""

    def __init__(self, count: int) -> None:
        self.best, self.total = np.full(count, -np.inf), np.full(count, -np.inf)
        self.index = np.zeros(count, dtype=np.int64)

    def visit(self, ratios: Ratios) -> None:
        top, value = ratios.best()
        people, total = ratios.people, ratios.sums()
        better = below(value) > self.best[people]
        self.best[people[better]], self.index[people[better]] = value[better], ratios.rows[top[better]]
        self.total[people] = np.logaddexp(self.total[people], total)


def held_slots(known: Knowledge, columns: Sequence[int] | None) -> Codes:
    """Positions of the encoded columns of the targets that the adversary holds: named, and not blank."""
    assert known.targets is not None
    groups = known.encoding.groups
    wanted = range(len(groups)) if columns is None else columns
    slots = [slot for number in wanted for slot in range(groups[number].start, groups[number].stop)]
    blank = np.asarray(np.isnan(known.targets).any(axis=0))
    return np.array([slot for slot in slots if not blank[slot]], dtype=np.int64)


def comparable_rows(known: Knowledge) -> Matrix:
    """The release in the source space: as it stands, or with its transform turned back."""
    if not known.columnwise:
        return reversed_release(known)
    slopes, offset = np.diag(own_columns(known).matrix), own_columns(known).offset
    return np.asarray((known.release - offset) / np.where(np.abs(slopes) > 1e-9, slopes, np.inf))


def comparable_weights(known: Knowledge) -> Matrix:
    """Weights of the source columns: by their noise where the release has these columns, else all the same."""
    if not known.columnwise:
        return np.ones(known.encoding.width)
    return np.asarray(noise_weights(known) * np.abs(np.diag(own_columns(known).matrix)))
