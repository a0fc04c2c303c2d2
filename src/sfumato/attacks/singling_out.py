"""Singling out: words that are true of exactly one person of the table [Anonymeter; Cohen and Nissim]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sfumato.attacks.base import SINGLING_OUT, Attack, Guess, Knowledge
from sfumato.attacks.nearest_row import comparable_rows
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.mechanisms.parameters import parameter
from sfumato.table import Encoding
from sfumato.table.neighbours.nearest import chosen, in_blocks

# What an adversary can say who wants to single a person out: conditions on the columns, joined by "and".


OPEN = 1e9
"""An end of a condition that is none: beyond every encoded value."""
FEW = 500
"""Up to so many records all of them are compared with many predicates at once; of more, those in the rarest range."""
AT_ONCE = 1_000_000
NONE = np.empty(0, dtype=np.int64)


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
        records = X if isinstance(X, Sorted) else Sorted(X)
        if self.slots.shape[1] == 1:
            return self._counts_of_one_column(records)
        if len(records) <= FEW:
            blocks = (self._who(records, part) for part in self._parts(len(records), np.arange(len(self))))
            return np.concatenate([NONE, *(np.count_nonzero(met, axis=1) for met in blocks)])
        if chosen() is not None:
            return self._by_device(records, np.arange(len(self)))[0]
        return np.array([len(self._met(number, records)) for number in range(len(self))], dtype=np.int64)

    def first_true(self, X: Matrix | Sorted, numbers: Codes) -> Codes:
        """The first record that meets each of these; there is one."""
        records = X if isinstance(X, Sorted) else Sorted(X)
        if len(records) <= FEW:
            blocks = (self._who(records, part) for part in self._parts(len(records), numbers))
            return np.concatenate([NONE, *(met.argmax(axis=1) for met in blocks)])
        if chosen() is not None:
            return self._by_device(records, numbers)[1]
        return np.array([int(self._met(int(number), records).min()) for number in numbers], dtype=np.int64)

    def _by_device(self, records: Sorted, numbers: Codes) -> tuple[Codes, Codes]:
        """Of these predicates how many records meet each, and the first that does: all are compared with all."""
        device = chosen()
        assert device is not None
        arrays, memory = device
        count, first = (np.empty(len(numbers), dtype=np.int64) for _ in range(2))
        slots = self.slots[numbers]
        used, which = np.unique(slots, return_inverse=True)
        across, which = arrays.put(np.ascontiguousarray(records.across[used])), which.reshape(slots.shape)

        def work(block: slice, _: int) -> None:
            met: Any = True
            for at, low, high in zip(
                which[block].T, self.low[numbers[block]].T, self.high[numbers[block]].T, strict=True
            ):
                cells = across[arrays.put(at)]
                met = met & (cells >= arrays.put(low)[:, None]) & (cells <= arrays.put(high)[:, None])
            count[block] = arrays.get(met.sum(axis=1))
            first[block] = arrays.get(arrays.namespace.argmax(met * 1, axis=1))

        in_blocks(arrays, len(numbers), 32 * len(records), memory, work, least=1)
        return count, first

    def _parts(self, records: int, numbers: Codes) -> Iterator[Codes]:
        """Some at a time, so that memory stays bounded."""
        size = max(1, AT_ONCE // max(1, records))
        return (numbers[start : start + size] for start in range(0, len(numbers), size))

    def _who(self, records: Sorted, numbers: Codes) -> Flags:
        """Which records (columns) meet each of these predicates (rows)."""
        met = np.ones((len(numbers), len(records)), dtype=np.bool_)
        for slots, low, high in zip(self.slots[numbers].T, self.low[numbers].T, self.high[numbers].T, strict=True):
            cells = records.across[slots]
            met &= (cells >= low[:, None]) & (cells <= high[:, None])
        return met

    def _met(self, number: int, records: Sorted) -> Codes:
        """The records that meet one of them: those that meet the rarest condition are looked at one by one."""
        conditions = list(zip(self.slots[number], self.low[number], self.high[number], strict=True))
        ranges = [records.within(*condition) for condition in conditions]
        rarest = min(range(len(ranges)), key=lambda place: ranges[place].stop - ranges[place].start)
        found = records.column(conditions[rarest][0]).order[ranges[rarest]]
        for place, (slot, low, high) in enumerate(conditions):
            if place != rarest:
                values = records.column(slot).unsorted[found]
                found = found[(values >= low) & (values <= high)]
        return found

    def _counts_of_one_column(self, records: Sorted) -> Codes:
        found = np.zeros(len(self), dtype=np.int64)
        for slot in np.unique(self.slots):
            at, values = self.slots[:, 0] == slot, records.column(slot).values
            last = np.searchsorted(values, self.high[at, 0], side="right")
            found[at] = np.maximum(last - np.searchsorted(values, self.low[at, 0], side="left"), 0)
        return found


class SortedColumn(NamedTuple):
    """Reported values in order, whose they are, and the column as it is (side by side in memory, which is faster)."""

    values: Floats
    order: Codes
    unsorted: Floats


class Sorted:
    """Records whose columns are sorted when they are first asked for."""

    def __init__(self, X: Matrix) -> None:
        self._X = X
        self._columns: dict[int, SortedColumn] = {}

    def __len__(self) -> int:
        return len(self._X)

    @cached_property
    def across(self) -> Matrix:
        """Columns x records, side by side in memory."""
        return np.ascontiguousarray(self._X.T)

    def column(self, slot: int) -> SortedColumn:
        """One column in order."""
        if slot not in self._columns:
            column = np.ascontiguousarray(self._X[:, slot])
            order = np.argsort(column, kind="stable")  # what is not reported comes last
            order = order[: len(order) - int(np.isnan(column).sum())]
            self._columns[slot] = SortedColumn(column[order], order, column)
        return self._columns[slot]

    def within(self, slot: int, low: float, high: float) -> slice:
        """Places in the order of a column that lie between two values, both included."""
        values = self.column(slot).values
        first = int(np.searchsorted(values, low, side="left"))
        return slice(first, max(first, int(np.searchsorted(values, high, side="right"))))


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
    columns: int = parameter(default=3, accepted=Whole(2, 100))
    predicates: int = parameter(default=1_000, accepted=Whole(10, 100_000))

    def guess(self, known: Knowledge) -> Guess:
        """Predicates over several columns."""
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
    predicates: int = parameter(default=1_000, accepted=Whole(10, 100_000))

    def guess(self, known: Knowledge) -> Guess:
        """Predicates over one column: a value that occurs once, the least and the largest."""
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
