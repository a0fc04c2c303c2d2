"""Tables of several columns that are counted, scored and chosen: as many at a time as memory allows.

Where all of them fit into memory they are counted once, and the chosen ones kept. Where they do not, the chosen ones
are counted once more. Who adds up the counts (blocks, sites, a cluster) does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sfumato.array_types import Codes
from sfumato.statistics.counts import Columns

MOST_CELLS = 1 << 24
"""Counts that are kept in memory at a time: 128 MB."""


class Passes:
    """What is still to be counted, the scores of what was, and the exact counts that wait for their noise."""

    def __init__(self, wanted: Iterable[Columns], cells: Callable[[Columns], int]) -> None:
        self.scores: dict[Columns, int] = {}
        self.exact: dict[Columns, Codes] = {}
        self.chosen: list[Columns] | None = None
        self._batches: list[list[Columns]] = []
        batch: list[Columns] = []
        filled = 0
        for one in wanted:
            size = cells(one)
            if batch and filled + size > MOST_CELLS:
                self._batches.append(batch)
                batch, filled = [], 0
            batch.append(one)
            filled += size
        self._batches.append(batch)
        self._keeps = len(self._batches) == 1

    @property
    def waiting(self) -> bool:
        """Whether one more pass over the table is needed."""
        return bool(self._batches)

    @property
    def next(self) -> list[Columns]:
        """What the next pass counts."""
        return self._batches[0]

    def take(self, counted: Mapping[Columns, Codes], score: Callable[[Columns, Codes], int]) -> None:
        """The sums of a pass."""
        for one in self._batches.pop(0):
            if self.chosen is None:
                self.scores[one] = score(one, counted[one])
            if self._keeps or self.chosen is not None:
                self.exact[one] = counted[one]

    def choose(self, chosen: list[Columns]) -> None:
        """Keep these, or ask for one more pass over them."""
        self.chosen = chosen
        self.scores.clear()
        self.exact = {one: self.exact[one] for one in chosen} if self._keeps else {}
        if chosen and not self._keeps:
            self._batches.append(chosen)
