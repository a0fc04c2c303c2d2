"""The matrix G of f_Z = G f_X [density-reconstruction, Eqs. 8-11]: how each cell of x is spread over the cells of z.

Rows are z, columns are x (Eq. 11 prints them the other way round). Cell averages are right also where densities are
singular or have edges: a column is the probability of every z-cell for an x that is uniform in its cell. The
rectangle rule takes densities at the middles of the cells, as published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import TableError, UsageError
from sfumato.noise import NumberNoise

_INSIDE = 8
"""Points within a cell of x over which its spread is averaged (midpoint rule)."""


@dataclass(frozen=True)
class Cells:
    """Cells of x; with `atoms` only their middles can occur (ranks of an ordinal, whole numbers of a short range)."""

    edges: Floats
    atoms: bool = False

    @classmethod
    def even(cls, low: float, high: float, count: int) -> Cells:
        return cls(np.asarray(np.linspace(low, high, count + 1), dtype=np.float64))

    @classmethod
    def whole(cls, low: float, high: float) -> Cells:
        """One cell about each whole number."""
        return cls(np.arange(float(round(low)), round(high) + 2) - 0.5, atoms=True)

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    @cached_property
    def middles(self) -> Floats:
        return np.asarray(0.5 * (self.edges[1:] + self.edges[:-1]))

    @cached_property
    def widths(self) -> Floats:
        return np.diff(self.edges)

    def holding(self, x: Floats) -> Codes:
        """The cells in which values lie, as a histogram counts them; those beyond count at the ends."""
        return np.clip(np.searchsorted(self.edges, x, side="right") - 1, 0, self.count - 1)

    def inner(self) -> list[Floats]:
        """Points that stand for the cells, one of each cell at a time."""
        if self.atoms:
            return [self.middles]
        places = (np.arange(_INSIDE) + 0.5) / _INSIDE
        return [self.edges[:-1] + place * self.widths for place in places]


def cell_probabilities(noise: NumberNoise, z_edges: Floats, cells: Cells) -> Floats:
    """P(z in cell | x in cell), (z-cells + 2) x (x-cells): first and last row are all z below and above the edges."""
    inner = cells.inner()
    total = sum(point_probabilities(noise, z_edges, x) for x in inner)
    return np.asarray(total / len(inner))


def point_probabilities(noise: NumberNoise, z_edges: Floats, x: Floats) -> Floats:
    """P(z in cell | x), (z-cells + 2) x (values x)."""
    below = np.pad(noise.cdf(z_edges[:, None], x[None, :]), ((1, 1), (0, 0)), constant_values=((0.0, 1.0), (0.0, 0.0)))
    return np.maximum(np.diff(below, axis=0), 0.0)


# Released values as counts on a fine grid: all that reconstruction needs, in constant memory, and counts add up.

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
        counts, wobble, empty = found[1:-1].astype(np.int64), float(t.sum() - t @ t), int(missing.sum())
        ends = float(present.min(initial=np.inf)), float(present.max(initial=-np.inf))
        beyond = int(found[0]), int(found[-1])
        return Bins(self.low, self.high, counts, shift.astype(np.float64), wobble, *beyond, empty, *ends)

    def __add__(self, other: Bins) -> Bins:
        if (self.low, self.high, len(self.counts)) != (other.low, other.high, len(other.counts)):
            raise UsageError("Counts on different grids cannot be added. Count all parts over the same bounds.")
        added = ("counts", "shift", "wobble", "below", "above", "empty")
        sums = {name: getattr(self, name) + getattr(other, name) for name in added}
        return replace(self, **sums, least=min(self.least, other.least), most=max(self.most, other.most))

    @property
    def n(self) -> int:
        """Values counted, without the empty cells of the table."""
        return int(self.counts.sum()) + self.below + self.above

    @property
    def step(self) -> float:
        """Width of a cell."""
        return (self.high - self.low) / len(self.counts)

    @property
    def centres(self) -> Floats:
        """Of the cells."""
        return np.asarray(self.low + self.step * (np.arange(len(self.counts)) + 0.5))

    def spread(self) -> float:
        """Standard deviation of the values on the grid."""
        weight = self.counts / max(1, self.counts.sum())
        mean = float(weight @ self.centres)
        return float(np.sqrt(weight @ (self.centres - mean) ** 2))

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


# What a method of reconstruction is given: counts of released values with the noise that made them, part by part.

_TAIL = 0.05
_NEVER = 1e-15
"""Share of the noise on each side beyond which not even one value in a long table is met by chance."""
TAIL = 5e-4
"""Share of unbounded noise on each side beyond which values are counted, not placed."""
MOST_POINTS = 10_000
FEWEST = 10
"""Fewer values than this tell nothing about a distribution."""


NO_ATOMS: Mapping[float, float] = MappingProxyType({})


@dataclass(frozen=True)
class Part:
    """One release of the column: its counts and its noise.

    Where "missing" is randomized, a share `hidden` of the values shown belongs to people whose value is missing: it was
    drawn about `stand_in`, the middle of the range, and must not count.
    """

    bins: Bins
    noise: NumberNoise
    hidden: float = 0.0
    stand_in: float = 0.0
    name: str = "x"

    def check(self, low: float, high: float, tolerance: float) -> None:
        """Refuse too few values, values that the noise cannot have produced, and values that are all the same."""
        if self.bins.n < FEWEST:
            raise TableError(f"There are {self.bins.n} released values; at least {FEWEST} are needed.")
        if not np.isfinite([self.bins.least, self.bins.most]).all():
            raise TableError(f"Column {self.name!r} contains infinite values. The release was changed.")
        if self.bins.least == self.bins.most:
            raise TableError("All released values are the same: the column is constant, and there is nothing to learn.")
        self.check_possible(low, high, tolerance)

    def check_possible(self, low: float, high: float, tolerance: float) -> None:
        """Refuse values that the noise cannot have produced, and more in its far tails than chance would bring there.

        Of n values at most 2 n `TAIL` are expected beyond the tails on either side, whatever x; six standard deviations
        and three values more are never met by chance.
        """
        x, bins = np.linspace(low, high, 513), self.bins
        ends, tails = self.noise.span(x, _NEVER), self.noise.span(x, TAIL)
        impossible = bins.least < float(ends[0].min()) - tolerance or bins.most > float(ends[1].max()) + tolerance
        expected = 2.0 * TAIL * bins.n
        below = bins.below if bins.low <= float(tails[0].min()) + tolerance else 0
        above = bins.above if bins.high >= float(tails[1].max()) - tolerance else 0
        if impossible or max(below, above) > expected + 6.0 * np.sqrt(expected) + 3.0:
            raise TableError(
                f"Column {self.name!r}: released values lie outside what this noise can produce from values within "
                "bounds. Card and release do not belong together, the law is wrong, or the bounds are too narrow."
            )


@dataclass(frozen=True)
class Evidence:
    """A part on coarse cells of z: `counts` has one more cell at each end for all values beyond `edges`.

    `spread` (z-cells + 2 x x-cells and point masses) is the probability of every z-cell for every x-cell, and then for
    every point mass; `background` is that of the hidden values.
    """

    part: Part
    edges: Floats
    counts: Codes
    spread: Floats
    background: Floats

    @classmethod
    def of(cls, part: Part, cells: Cells, points: int, margin: float, atoms: Iterable[float] = ()) -> Evidence:
        """About `points` cells of z, over all occupied ones and a `margin`, in the units of z, on each side.

        Far tails would make the cells coarse where it matters: `points` cells go to where all but 5% of the noise leads
        on each side, and at most half as many beyond.
        """
        bins = part.bins
        met = np.flatnonzero(bins.counts)
        start, stop = (int(met[0]), int(met[-1]) + 1) if len(met) else (0, len(bins.counts))
        first, last = bins.low + bins.step * start - margin, bins.low + bins.step * stop + margin
        ends = part.noise.span(cells.middles, _TAIL)
        inner = max(first, float(ends[0].min())), min(last, float(ends[1].max()))
        if not inner[0] < inner[1]:
            inner = first, last
        width = max(1, round((inner[1] - inner[0]) / points / bins.step))
        more = 0.25 * points * width * bins.step
        first, last = max(first, inner[0] - more), min(last, inner[1] + more)
        start = int(np.floor((first - bins.low) / bins.step))
        points = int(np.ceil((last - bins.low) / bins.step - start)) // width + 1
        edges, counts = bins.coarse(start, width, points)
        background = np.zeros(points + 2)
        if part.hidden > 0:
            alone = Cells(np.array([part.stand_in - 0.5, part.stand_in + 0.5]), atoms=True)
            background = cell_probabilities(part.noise, edges, alone)[:, 0]
        spread = cell_probabilities(part.noise, edges, cells)
        at = np.array(list(atoms))
        if len(at):
            spread = np.hstack([spread, point_probabilities(part.noise, edges, at)])
        return cls(part, edges, counts, spread, background)

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    def expected(self, mass: Floats) -> Floats:
        """Probabilities of the z-cells if x had these probabilities."""
        hidden = self.part.hidden
        return np.asarray((1.0 - hidden) * (self.spread @ mass) + hidden * self.background)

    def resampled(self, rng: np.random.Generator, mass: Floats) -> Evidence:
        """As many values drawn again, as if x had these probabilities."""
        chances = self.expected(mass)
        return replace(self, counts=rng.multinomial(self.n, chances / chances.sum()).astype(np.int64))


def z_cells(wanted: int, cells: Cells) -> int:
    """How many cells z gets: fewer than 2.5 for each of x leave the programme without an answer."""
    return max(wanted, int(np.ceil(2.5 * cells.count)))


class Solver(Protocol):
    """A method that was set up for one column: widths and weights are settled, only counts may still change."""

    evidence: Sequence[Evidence]
    about: dict[str, Any]

    def solve(self, evidence: Sequence[Evidence]) -> Floats:
        """Probabilities of the cells of x, and then of the point masses."""


class Method(Protocol):
    """One way of reconstruction."""

    name: ClassVar[str]

    def prepare(self, parts: Sequence[Part], cells: Cells, atoms: Mapping[float, float] = NO_ATOMS) -> Solver:
        """Settle everything that is chosen from the data; `atoms` are values of a probability of their own, about so
        large."""


BINS, MOST_BINS = 75, 1_000
"""The programme is dense: memory grows with the square of the cells, time with their cube."""
MOST_RESAMPLES = 10_000


@dataclass(frozen=True)
class Options:
    """How to reconstruct: cells of x, its range if not the card's, whether point masses are looked for, and the band.

    `resamples` is the number of draws that the band is made of, for every column that is likely; 0: no band.
    """

    bins: int = BINS
    support: tuple[float, float] | None = None
    atoms: bool = True
    confidence: float = 0.9
    resamples: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("bins", 2, MOST_BINS), ("resamples", 0, MOST_RESAMPLES)):
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or not least <= value <= most:
                raise UsageError(
                    f"The {name!r} parameter must be a whole number between {least} and {most}. Got {value!r} instead."
                )
        if not 0 < self.confidence < 1:
            raise UsageError(f"The 'confidence' parameter must lie between 0 and 1. Got {self.confidence} instead.")
        if self.support is not None and not (np.isfinite(self.support).all() and self.support[0] < self.support[1]):
            raise UsageError(f"The 'support' parameter must be (low, high) with low < high. Got {self.support}.")
