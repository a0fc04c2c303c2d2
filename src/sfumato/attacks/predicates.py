"""What an adversary can say who wants to single somebody out: conditions on the columns, joined by "and"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sfumato.array_types import Codes, Flags, Floats, Matrix
from sfumato.attacks.base import Guess
from sfumato.neighbours import chosen, in_blocks

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
        """The first record that meets each of these, which somebody does."""
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
