"""How often a classifier is wrong, with an interval, also where the labels it is held against were randomized."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.metrics import proportion_interval


@dataclass(frozen=True)
class ErrorRate:
    """Share of wrong answers among `rows`; lower is better. The interval is Wilson's, of 95%."""

    error: float
    low: float
    high: float
    rows: int

    @classmethod
    def of(cls, wrong: float, rows: int, *, keep: float = 1.0, classes: int = 2) -> ErrorRate:
        """From `wrong` disagreements among `rows` (a mean over repeats need not be whole).

        A label that randomized response kept with probability p, and else replaced by one of the k - 1 others,
        disagrees with a right answer with probability 1 - p, and with a wrong one with 1 - (1 - p)/(k - 1). So

            seen = (1 - p) + c error,    c = p - (1 - p)/(k - 1),

        which is solved for the error, and for both ends of the interval.
        """
        if rows < 1:
            raise ValueError(f"The 'rows' parameter of ErrorRate.of must be at least 1. Got {rows!r} instead.")
        seen = wrong / rows
        figures = (seen, *proportion_interval(wrong, rows))
        contrast = keep - (1.0 - keep) / max(classes - 1, 1)
        if contrast <= 0.0:  # labels that tell nothing of the truth
            return cls(math.nan, 0.0, 1.0, rows)
        error, low, high = ((min(1.0, max(0.0, (figure - (1.0 - keep)) / contrast))) for figure in figures)
        return cls(error, low, high, rows)

    def to_dict(self) -> dict[str, Any]:
        known = not math.isnan(self.error)
        return {"error": self.error if known else None, "interval": [self.low, self.high], "rows": self.rows}
