"""Released values as counts on a fine grid: all that reconstruction needs, in constant memory, and counts add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import UsageError

CELLS = 1 << 15
_CHUNK = 1 << 18


@dataclass(frozen=True)
class Bins:
    """Counts of values in equal cells between `low` and `high`, of those beyond, and of empty cells of the table.

    `shift` holds for each cell the sum of t, where t in [0, 1) is how far into its cell a value lies, and `wobble` the
    sum of all t (1 - t): with them a value is shared between the two nearest edges (linear binning). `least` and
    `most` are the extremes met, to check that the noise can have produced them.
    """

    low: float
    high: float
    counts: Codes
    shift: Floats
    wobble: float = 0.0
    below: int = 0
    above: int = 0
    empty: int = 0
    least: float = np.inf
    most: float = -np.inf

    @classmethod
    def over(cls, low: float, high: float, cells: int = CELLS) -> Bins:
        """No values yet."""
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise UsageError(f"Values can be counted only between finite bounds low < high. Got {low} and {high}.")
        return cls(float(low), float(high), np.zeros(cells, dtype=np.int64), np.zeros(cells))

    def of(self, values: Floats | Iterable[Floats]) -> Bins:
        """These values counted too; an array, or a stream of arrays. NaN is an empty cell of the table."""
        total = self
        for block in [values] if isinstance(values, np.ndarray) else values:
            flat = np.asarray(block, dtype=np.float64).ravel()
            for start in range(0, len(flat), _CHUNK):
                total = total + self._count(flat[start : start + _CHUNK])
        return total

    def _count(self, values: Floats) -> Bins:
        missing = np.isnan(values)
        present = values[~missing] if missing.any() else values
        cells = len(self.counts)
        place = (present - self.low) * (cells / (self.high - self.low))
        # One cell before and one after the grid; the upper bound itself belongs to the last cell.
        np.clip(place, -1.0, cells + 1.0, out=place)
        place[present == self.high] = np.nextafter(cells, 0.0)
        whole = np.floor(place)
        cell = whole.astype(np.intp)
        np.minimum(cell, cells, out=cell)
        place -= whole
        cell += 1
        found = np.bincount(cell, minlength=cells + 2)
        shift = np.bincount(cell, weights=place, minlength=cells + 2)[1:-1]
        inside = (cell > 0) & (cell <= cells) if found[0] or found[-1] else slice(None)
        t = place[inside]
        return Bins(
            self.low,
            self.high,
            found[1:-1].astype(np.int64),
            shift.astype(np.float64),
            float(t.sum() - t @ t),
            int(found[0]),
            int(found[-1]),
            int(missing.sum()),
            float(present.min(initial=np.inf)),
            float(present.max(initial=-np.inf)),
        )

    def __add__(self, other: Bins) -> Bins:
        if (self.low, self.high, len(self.counts)) != (other.low, other.high, len(other.counts)):
            raise UsageError("Counts on different grids cannot be added. Count all parts over the same bounds.")
        return Bins(
            self.low,
            self.high,
            self.counts + other.counts,
            self.shift + other.shift,
            self.wobble + other.wobble,
            self.below + other.below,
            self.above + other.above,
            self.empty + other.empty,
            min(self.least, other.least),
            max(self.most, other.most),
        )

    @property
    def n(self) -> int:
        """Values counted, without the empty cells of the table."""
        return int(self.counts.sum()) + self.below + self.above

    @property
    def step(self) -> float:
        """Width of a cell."""
        return (self.high - self.low) / len(self.counts)

    @property
    def occupied(self) -> tuple[int, int]:
        """First cell with a value, and the one after the last."""
        found = np.flatnonzero(self.counts)
        return (int(found[0]), int(found[-1]) + 1) if len(found) else (0, len(self.counts))

    def spread(self) -> float:
        """Standard deviation of the values on the grid."""
        centres = self.low + self.step * (np.arange(len(self.counts)) + 0.5)
        weight = self.counts / max(1, self.counts.sum())
        mean = float(weight @ centres)
        return float(np.sqrt(weight @ (centres - mean) ** 2))

    def coarse(self, first: int, width: int, cells: int) -> tuple[Floats, Codes]:
        """Edges and counts of `cells` cells of `width` fine cells each, from fine cell `first` on (it may lie outside).

        Two more counts than cells: the first and last are everything beyond.
        """
        total = np.concatenate([[0], np.cumsum(self.counts)])
        at = np.clip(first + width * np.arange(cells + 1), 0, len(self.counts))
        inside = np.diff(total[at])
        beyond = self.below + total[at[0]], self.above + total[-1] - total[at[-1]]
        edges: Floats = self.low + self.step * (first + width * np.arange(cells + 1.0))
        return edges, np.concatenate([[beyond[0]], inside, [beyond[1]]]).astype(np.int64)
