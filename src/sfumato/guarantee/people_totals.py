"""What all releases come to for each person of one of them: the worst and the median, by kind of guarantee.

People who were in the same earlier releases have the same totals, so it is enough to know for each which combination
they were in (a byte, mostly) and to add up once a combination. Epsilons of perturbed records add up: their noise is
independent. A release without a proof has no figure and is counted. What releases of made-up rows cost is
kept apart, and is the same for everybody: it never depends on who was in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.array_types import Codes, Flags, Floats
from sfumato.guarantee.person_hash import Prints
from sfumato.guarantee.rounding import sum_up

COUNTED = 1 << 18
"""People who are counted at a time."""


@dataclass(frozen=True)
class Spread:
    """The largest of a figure over all people, and the median (the upper one of two)."""

    worst: float
    median: float

    @classmethod
    def of(cls, values: Floats, counts: Codes) -> Spread:
        order = np.argsort(values, kind="stable")
        middle = int(np.searchsorted(np.cumsum(counts[order]), counts.sum() // 2, side="right"))
        return cls(float(values.max()), float(values[order[min(middle, len(order) - 1)]]))

    def to_dict(self, kind: Callable[[float], Any] = float) -> dict[str, Any]:
        return {"worst": kind(self.worst), "median": kind(self.median)}


@dataclass(frozen=True)
class PeopleTotals:
    """For people (or rows, where no column says whose they are): releases they were in, this one included; the sum of
    the epsilons that are proved; and how many of those releases prove nothing."""

    by: str
    releases: Spread
    epsilon: Spread
    unproved: Spread

    @property
    def worst(self) -> float:
        """The largest epsilon that is proved for anybody; infinite where a release proves nothing."""
        return math.inf if self.unproved.worst else self.epsilon.worst

    def to_dict(self) -> dict[str, Any]:
        """As it stands on a card."""
        return {
            "by": self.by,
            "releases": self.releases.to_dict(int),
            "local_epsilon": self.epsilon.to_dict(),
            "unproved_releases": self.unproved.to_dict(int),
        }


class Tally:
    """Who was in which releases: a code for each person, and for each code the releases that it stands for."""

    def __init__(self, rows: int, people: Prints | None = None, *, by: str | None = None):
        self.by = by or ("row" if people is None else "person")
        self._person: Codes | None = None
        units = rows
        if people is not None:
            distinct, self._person = np.unique(people, return_inverse=True)
            units = len(distinct)
        self._codes: NDArray[np.unsignedinteger[Any]] = np.zeros(units, dtype=np.uint8)
        self._sets: list[tuple[int, ...]] = [()]

    def add(self, release: int, seen: Flags) -> bool:
        """Note which rows were in an earlier release; returns whether any was."""
        if self._person is not None:
            seen = np.bincount(self._person[seen], minlength=len(self._codes)) > 0
        if not seen.any():
            return False
        sets = [*self._sets, *((*one, release) for one in self._sets)]
        codes = self._codes.astype(np.min_scalar_type(len(sets)))
        np.add(codes, codes.dtype.type(len(self._sets)), out=codes, where=seen)
        used = np.flatnonzero(_counted(codes, len(sets)))
        if len(used) < len(sets):
            renamed = np.zeros(len(sets), dtype=codes.dtype)
            renamed[used] = np.arange(len(used))
            codes = renamed[codes]
        self._codes, self._sets = codes, [sets[one] for one in used]
        return True

    def totals(self, epsilons: Sequence[float], now: float) -> PeopleTotals:
        """Given the epsilon of every earlier release and of this one, infinite where nothing is proved."""
        counts = _counted(self._codes, len(self._sets))
        taken = [[now, *(epsilons[one] for one in releases)] for releases in self._sets]
        proved = [[one for one in all_ if math.isfinite(one)] for all_ in taken]

        def spread(values: list[float]) -> Spread:
            return Spread.of(np.array(values, dtype=np.float64), counts)

        return PeopleTotals(
            self.by,
            spread([float(len(all_)) for all_ in taken]),
            spread([sum_up(known) if known else 0.0 for known in proved]),
            spread([float(len(all_) - len(known)) for all_, known in zip(taken, proved, strict=True)]),
        )

    def worst(self, epsilons: Sequence[float]) -> float:
        """The largest sum of earlier epsilons that anybody has: infinite where one of them is."""
        return max(sum_up(epsilons[one] for one in releases) if releases else 0.0 for releases in self._sets)


def _counted(codes: NDArray[np.unsignedinteger[Any]], kinds: int) -> Codes:
    """How often each code stands there, a piece at a time: NumPy takes eight bytes for every code that it counts."""
    found = np.zeros(kinds, dtype=np.int64)
    for start in range(0, len(codes), COUNTED):
        found += np.bincount(codes[start : start + COUNTED], minlength=kinds)
    return found
