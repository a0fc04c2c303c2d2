"""What an adversary can say who wants to single somebody out: conditions on the columns, joined by "and"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes, Flags, Matrix
from sfumato.attacks.base import Guess

OPEN = 1e9
"""An end of a condition that is none: beyond every encoded value."""


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

    def met(self, number: int, X: Matrix) -> Flags:
        """The records that meet one of them."""
        values = X[:, self.slots[number]]
        return np.asarray(((values >= self.low[number]) & (values <= self.high[number])).all(axis=1))

    def counts(self, X: Matrix) -> Codes:
        """How many records meet each."""
        return np.array([np.count_nonzero(self.met(number, X)) for number in range(len(self))], dtype=np.int64)

    def first_true(self, X: Matrix, numbers: Codes) -> Codes:
        """The first record that meets each of these."""
        return np.array([int(self.met(int(number), X).argmax()) for number in numbers], dtype=np.int64)
