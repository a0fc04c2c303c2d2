"""Singling out: words that are true of exactly one person of the table [Anonymeter; Cohen and Nissim]."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from sfumato.accepted import Whole
from sfumato.array_types import Codes, Matrix
from sfumato.attacks.base import SINGLING_OUT, Abstain, Attack, Guess, Knowledge
from sfumato.attacks.nearest_row import comparable_rows
from sfumato.attacks.predicates import OPEN, Predicates, Sorted
from sfumato.table import Encoding

TRIES = 40
"""Predicates that are drawn for each that is wanted, before the adversary gives up."""
NO_TRANSFORM = "needs the transform of a release that mixes columns"


class SinglingOut(Attack):
    """The adversary joins conditions on several columns that exactly one row of the release meets, and bets that
    exactly one person of the table meets them too.

    He takes a row of the release and some of its columns: a number at or beyond the row's, on the side away from the
    median; a category that is the row's. He keeps what only this row meets, one predicate for each row. A predicate
    that is true of exactly one person singles that person out, whether or not anybody knows who it is. It is the first
    of the three risks of the European guidance. The control asks how often such words single out one of as many people
    who are not in the table.

    Parameters
    ----------
    columns : int, default=3
        Columns that are joined, from 2 to 100; all where there are fewer.
    predicates : int, default=1000
        How many are tried at most, from 10 to 100,000.
    """

    name = "singling-out"
    risk = SINGLING_OUT
    reads_gaps = True
    knows = frozenset({"release"})
    helps = frozenset({"transform", "noise", "noise_covariance", "column_moments"})
    accepts = MappingProxyType({"columns": Whole(2, 100), "predicates": Whole(10, 100_000)})

    def __init__(self, columns: int = 3, predicates: int = 1_000) -> None:
        self.columns = columns
        self.predicates = predicates

    def guess(self, known: Knowledge) -> Guess:
        """Predicates over several columns."""
        if not known.columnwise and known.transform is None:
            return Abstain(NO_TRANSFORM)
        R, rng = comparable_rows(known), np.random.default_rng(0)
        joined = min(self.columns, len(known.encoding.groups))
        found, records, about = list[Predicates](), Sorted(R), list[Codes]()
        for _ in range(TRIES):
            rows = rng.integers(len(R), size=self.predicates)
            chosen = rng.random((self.predicates, len(known.encoding.groups))).argsort(axis=1)[:, :joined]
            drawn = away_from_median(R, rows, chosen, known.encoding)
            found.append(drawn.take(np.flatnonzero(drawn.counts(records) == 1)))
            about.append(found[-1].first_true(records, np.arange(len(found[-1]))))
            # Further ones are about rows that have one already.
            if sum(map(len, found)) >= self.predicates or len(np.unique(np.concatenate(about))) == len(R):
                break
        whole = Predicates.joined(found)
        # One for each released row: several about the same row come true together, and would feign certainty.
        first = np.unique(np.concatenate(about), return_index=True)[1]
        return whole.take(np.sort(first)[: self.predicates])


class SinglingOutOneColumn(Attack):
    """The adversary takes a value that a single row of the release has, or the largest or least, and bets that exactly
    one person of the table has it.

    Exact values that survive (a rare category, an income to the cent, the oldest person) single people out, however
    well the rest of the row is changed.

    Parameters
    ----------
    predicates : int, default=1000
        How many are tried at most, from 10 to 100,000.
    """

    name = "singling-out-one-column"
    risk = SINGLING_OUT
    reads_gaps = True
    knows = frozenset({"release"})
    helps = frozenset({"transform", "noise", "noise_covariance", "column_moments"})
    accepts = MappingProxyType({"predicates": Whole(10, 100_000)})

    def __init__(self, predicates: int = 1_000) -> None:
        self.predicates = predicates

    def guess(self, known: Knowledge) -> Guess:
        """Predicates over one column: a value that occurs once, the least and the largest."""
        if not known.columnwise and known.transform is None:
            return Abstain(NO_TRANSFORM)
        R = comparable_rows(known)
        records = Sorted(R)
        found: list[Matrix] = []
        for group in known.encoding.groups:
            slots = range(group.start, group.stop) if group.is_onehot else (group.start,)
            for slot in slots:
                values = records.column(slot).values
                if group.is_onehot:
                    found.append(np.array([[slot, 0.5, OPEN]]))
                elif len(values):
                    once, count = np.unique(np.round(values, 9), return_counts=True)
                    low = np.array([*once[count == 1] - 1e-9, values[-1] - 1e-9, -OPEN])
                    high = np.array([*once[count == 1] + 1e-9, OPEN, values[0] + 1e-9])
                    found.append(np.column_stack([np.full(len(low), slot), low, high]))
        table = np.concatenate(found)
        table = table[np.random.default_rng(0).permutation(len(table))]
        whole = Predicates(table[:, :1].astype(np.int64), table[:, 1:2], table[:, 2:])
        return whole.take(np.flatnonzero(whole.counts(records) == 1)).take(np.arange(self.predicates))


def away_from_median(R: Matrix, rows: Codes, groups: Codes, encoding: Encoding) -> Predicates:
    """For each of the rows a condition on each of its groups: its category, or a number at least as far out."""
    slots, low, high = (np.empty(groups.shape) for _ in range(3))
    for number, group in enumerate(encoding.groups):
        at = np.nonzero(groups == number)
        mine = R[rows[at[0]], group.start : group.stop]
        if group.is_onehot:
            slots[at], low[at], high[at] = group.start + mine.argmax(axis=1), 0.5, OPEN
            continue
        middle = float(np.nanmedian(R[:, group.start])) if not np.isnan(R[:, group.start]).all() else 0.5
        above = mine[:, 0] > middle
        slots[at] = group.start
        low[at] = np.where(above, mine[:, 0] - 1e-9, -OPEN)
        high[at] = np.where(above, OPEN, mine[:, 0] + 1e-9)
    return Predicates(slots.astype(np.int64), low, high)
