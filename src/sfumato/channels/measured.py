"""What was measured of a table, with which noise, before rows that belong to nobody were drawn from the answers.

Every figure of a `central-dp` claim follows from this list. A measurement is a set of counts (one record changes one
count of each by 1) or a choice by scores (one record changes every score by at most 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from sfumato.core.accepted import Positive, Text, Whole
from sfumato.core.records import Record

Way = Literal["gaussian", "laplace", "choice"]

COUNTS = frozenset({"rows", "columns", "columns again", "pairs", "pairs again", "triples"})
"""What is known to be tables of counts, in which one record stands in one cell."""


@dataclass(frozen=True)
class Measurement(Record):
    """`times` measurements of one kind. `strength`: variance of discrete Gaussian noise, scale of discrete Laplace
    noise, or epsilon of an exponential mechanism. Measurements of disjoint parts of the table count once."""

    what: Annotated[str, Text(80)]
    way: Way
    times: Annotated[int, Whole(0, 1 << 62)]
    strength: Annotated[float, Positive(math.inf)]

    def __post_init__(self) -> None:
        if self.way not in get_args(Way) or self.times < 0 or not 0 < self.strength < math.inf:
            raise ValueError("measurement")

    @property
    def rho(self) -> float:
        """Of concentrated differential privacy, for one record that is added or removed."""
        if self.way == "gaussian":
            return self.times / (2.0 * self.strength)
        one = self.strength if self.way == "choice" else 1.0 / self.strength
        return self.times * one**2 / (8.0 if self.way == "choice" else 2.0)

    @property
    def rho_replaced(self) -> float:
        """The same for one record that is replaced by any other.

        Of each table of counts two cells change by 1: the squared distance is 2, where one record that comes or goes
        makes it 1. Scores, and whatever else is measured, change by 2: a squared distance of 4.
        """
        counts = self.way == "gaussian" and self.what in COUNTS
        return self.rho * (2.0 if counts else 4.0)

    @property
    def epsilon(self) -> float:
        """Of pure differential privacy."""
        if self.way == "gaussian":
            return math.inf if self.times else 0.0
        return self.times * (self.strength if self.way == "choice" else 1.0 / self.strength)
