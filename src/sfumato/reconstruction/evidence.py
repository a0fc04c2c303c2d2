"""What a method of reconstruction is given: counts of released values with the noise that made them, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import TableError, UsageError
from sfumato.noise import NumberNoise
from sfumato.reconstruction.bins import Bins
from sfumato.reconstruction.kernel import Cells, cell_probabilities, point_probabilities

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
        first, last = (bins.low + bins.step * place for place in bins.occupied)
        first, last = first - margin, last + margin
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

    def with_counts(self, counts: Codes) -> Evidence:
        return replace(self, counts=counts)

    def resampled(self, rng: np.random.Generator, probabilities: Floats | None = None) -> Evidence:
        """As many values drawn again: from the counts themselves (bootstrap), or from given probabilities."""
        p = self.counts / self.n if probabilities is None else probabilities / probabilities.sum()
        return self.with_counts(rng.multinomial(self.n, p).astype(np.int64))


def z_cells(wanted: int, cells: Cells) -> int:
    """How many cells z gets: fewer than 2.5 for each of x leave the programme without an answer."""
    if not isinstance(wanted, int | np.integer) or not 1 <= wanted <= MOST_POINTS:
        raise UsageError(
            f"The 'points' parameter must be a whole number between 1 and {MOST_POINTS}. Got {wanted!r} instead."
        )
    return max(int(wanted), int(np.ceil(2.5 * cells.count)))


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
