"""Singling out: words that are true of exactly one person of the table [Anonymeter; Cohen and Nissim]."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.attacks.base import SINGLING_OUT, Attack, Guess, Knowledge
from sfumato.attacks.nearest_row import comparable_rows
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.mechanisms.parameters import parameter
from sfumato.table import Encoding
from sfumato.table.neighbours.tiles import slices

OPEN = 1e9
"""An end of a condition that is none: beyond every encoded value."""
AT_ONCE = 1_000_000
"""Records that are looked at together, so that memory stays bounded."""
WINDOW = 32
"""Records of its rarest condition that a predicate is tried on first, to see whether several meet it."""


@dataclass(frozen=True)
class Predicates(Guess):
    """Conditions that a record meets or not, joined by "and": predicate i says that each encoded column `slots[i, j]`
    lies between `low[i, j]` and `high[i, j]`, both included. A cell that is not reported meets none."""

    slots: Codes
    low: Matrix
    high: Matrix

    def __len__(self) -> int:
        return len(self.slots)

    def take(self, places: Codes) -> Predicates:
        """Some of them; places beyond the last are left out."""
        places = places[places < len(self)]
        return Predicates(self.slots[places], self.low[places], self.high[places])

    @classmethod
    def joined(cls, parts: Iterable[Predicates]) -> Predicates:
        """All of several lists, over as many columns each."""
        found = list(parts)
        return cls(*(np.concatenate([getattr(part, name) for part in found]) for name in ("slots", "low", "high")))

    def counts(self, X: Matrix | Sorted) -> Codes:
        """How many records meet each."""
        return self._found(X)[0]

    def alone(self, X: Matrix | Sorted) -> Codes:
        """The only record that meets each; -1 where none does, or several."""
        count, record = self._found(X, enough=2)
        return np.where(count == 1, record, -1)

    def _found(self, X: Matrix | Sorted, enough: int | None = None) -> tuple[Codes, Codes]:
        """How many records meet each, and one that does. With `enough` none is looked for beyond so many.

        Only records within the rarest condition are looked at. Most predicates are met by many records: a few of these
        tell so, and only of the others more are looked at.
        """
        records = X if isinstance(X, Sorted) else Sorted(X)
        first, last = (np.empty(self.slots.shape, dtype=np.int64) for _ in range(2))
        for slot in np.unique(self.slots):
            at, values = self.slots == slot, records.column(slot)[0]
            first[at] = np.searchsorted(values, self.low[at], side="left")
            last[at] = np.maximum(first[at], np.searchsorted(values, self.high[at], side="right"))
        conditions = np.argsort(last - first, axis=1)  # the rarest first
        every = np.arange(len(self))
        rarest = self.slots[every, conditions[:, 0]]
        begin, end = first[every, conditions[:, 0]], last[every, conditions[:, 0]]
        count, record = (np.zeros(len(self), dtype=np.int64) for _ in range(2))
        size, left = WINDOW if enough else AT_ONCE, every[begin < end]
        if conditions.shape[1] == 1:  # nothing is left to look at
            for slot in np.unique(rarest[left]):
                mine = left[rarest[left] == slot]
                count[mine], record[mine] = end[mine] - begin[mine], records.column(slot)[1][begin[mine]]
            return count, record
        while len(left):
            for slot in np.unique(rarest[left]):
                mine, order = left[rarest[left] == slot], records.column(slot)[1]
                together = np.cumsum(np.minimum(size, end[mine] - begin[mine])) // AT_ONCE
                for some in np.split(mine, np.flatnonzero(np.diff(together)) + 1):
                    length = np.minimum(size, end[some] - begin[some])
                    # begin, begin + 1, ... for every run, one run after the other
                    runs = np.arange(length.sum()) + np.repeat(begin[some] + length - np.cumsum(length), length)
                    near, who = order[runs], np.repeat(np.arange(len(some)), length)
                    for condition in conditions[some].T[1:]:
                        cells = records.across[self.slots[some, condition][who], near]
                        met = (cells >= self.low[some, condition][who]) & (cells <= self.high[some, condition][who])
                        who, near = who[met], near[met]
                    count[some] += np.bincount(who, minlength=len(some))
                    record[some[who]] = near
            begin[left] += size
            left = left[(begin[left] < end[left]) & ((count[left] < enough) if enough else True)]
            size = min(4 * size, AT_ONCE)
        return count, record


class Sorted:
    """Records whose columns are sorted when they are first asked for."""

    def __init__(self, X: Matrix) -> None:
        self.across = np.ascontiguousarray(X.T)
        """Columns x records, side by side in memory."""
        self._columns: dict[int, tuple[Floats, Codes]] = {}

    def __len__(self) -> int:
        return int(self.across.shape[1])

    def column(self, slot: int) -> tuple[Floats, Codes]:
        """Reported values of one column in order, and whose they are."""
        if slot not in self._columns:
            column = self.across[slot]
            order = np.argsort(column, kind="stable")  # what is not reported comes last
            order = order[: len(order) - int(np.isnan(column).sum())]
            self._columns[slot] = column[order], order
        return self._columns[slot]

    def median(self, slot: int) -> float:
        """Of what is reported; the middle of the range where nothing is."""
        values, _ = self.column(slot)
        return float(values[[(len(values) - 1) // 2, len(values) // 2]].mean()) if len(values) else 0.5


TRIES = 40
"""Predicates that are drawn for each that is wanted, before the adversary gives up."""


class SinglingOut(Attack):
    """The adversary joins conditions on several columns that exactly one row of the release meets, and bets that
    exactly one person of the table meets them too.

    He takes a row of the release and some of its columns: a number at or beyond the row's, on the side away from the
    median; a category that is the row's. He keeps what only this row meets, one predicate for each row. A predicate
    that is true of exactly one person singles that person out, whether or not anybody knows who it is. It is the first
    of the three risks of the European guidance. The control asks how often such words single out one of as many people
    who are not in the table.
    """

    name = "singling-out"
    risk = SINGLING_OUT
    reads_gaps = True
    knows = frozenset({"release"})
    helps = frozenset({"transform", "noise", "noise_covariance", "column_moments"})
    columns: int = parameter(Whole(2, 100), "Columns that are joined; all where there are fewer.", default=3)
    predicates: int = parameter(Whole(10, 100_000), "How many are tried at most.", default=1_000)

    def guess(self, known: Knowledge) -> Guess:
        R, rng = comparable_rows(known), np.random.default_rng(0)
        joined = min(self.columns, len(known.encoding.groups))
        found, records, about = list[Predicates](), Sorted(R), list[Codes]()
        middles = [0.5 if group.is_onehot else records.median(group.start) for group in known.encoding.groups]
        for _ in range(TRIES):
            rows = rng.integers(len(R), size=self.predicates)
            chosen = rng.random((self.predicates, len(known.encoding.groups))).argsort(axis=1)[:, :joined]
            drawn = away_from_median(R, rows, chosen, known.encoding, middles)
            alone = drawn.alone(records)
            found.append(drawn.take(np.flatnonzero(alone >= 0)))
            about.append(alone[alone >= 0])
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
    """

    name = "singling-out-one-column"
    risk = SINGLING_OUT
    reads_gaps = True
    knows = frozenset({"release"})
    helps = frozenset({"transform", "noise", "noise_covariance", "column_moments"})
    predicates: int = parameter(Whole(10, 100_000), "How many are tried at most.", default=1_000)

    def guess(self, known: Knowledge) -> Guess:
        records, found = Sorted(comparable_rows(known)), list[Matrix]()
        for group in known.encoding.groups:
            values, _ = records.column(group.start)
            if group.is_onehot:
                found.append(np.array([[slot, 0.5, OPEN] for slot in range(group.start, group.stop)]))
            elif len(values):
                once, count = np.unique(np.round(values, 9), return_counts=True)
                low = np.array([*once[count == 1] - 1e-9, values[-1] - 1e-9, -OPEN])
                high = np.array([*once[count == 1] + 1e-9, OPEN, values[0] + 1e-9])
                found.append(np.column_stack([np.full(len(low), group.start), low, high]))
        table = np.concatenate(found)
        order, kept = np.random.default_rng(0).permutation(len(table)), list[Predicates]()
        for some in slices(len(table), AT_ONCE):
            part = table[order[some]]
            drawn = Predicates(part[:, :1].astype(np.int64), part[:, 1:2], part[:, 2:])
            kept.append(drawn.take(np.flatnonzero(drawn.alone(records) >= 0)))
            if sum(map(len, kept)) >= self.predicates:
                break
        return Predicates.joined(kept).take(np.arange(self.predicates))


def away_from_median(R: Matrix, rows: Codes, groups: Codes, encoding: Encoding, middles: Sequence[float]) -> Predicates:
    """For each of the rows a condition on each of its groups: its category, or a number at least as far out."""
    slots, low, high = (np.empty(groups.shape) for _ in range(3))
    for number, group in enumerate(encoding.groups):
        at = np.nonzero(groups == number)
        mine = R[rows[at[0]], group.slice]
        if group.is_onehot:
            slots[at], low[at], high[at] = group.start + mine.argmax(axis=1), 0.5, OPEN
            continue
        above = mine[:, 0] > middles[number]
        slots[at] = group.start
        low[at] = np.where(above, mine[:, 0] - 1e-9, -OPEN)
        high[at] = np.where(above, OPEN, mine[:, 0] + 1e-9)
    return Predicates(slots.astype(np.int64), low, high)
