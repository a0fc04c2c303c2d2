"""The matrix G of f_Z = G f_X [density-reconstruction, Eqs. 8-11]: how each cell of x is spread over the cells of z.

Rows are z, columns are x (Eq. 11 prints them the other way round). Cell averages are right also where densities are
singular or have edges: a column is the probability of every z-cell for an x that is uniform in its cell. The
rectangle rule takes densities at the middles of the cells, as published.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from sfumato.core.array_types import Codes, Floats
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
    cumulative = np.empty((len(z_edges) + 2, len(x)))
    cumulative[0], cumulative[-1] = 0.0, 1.0
    cumulative[1:-1] = noise.cdf(z_edges[:, None], x[None, :])
    return np.maximum(np.diff(cumulative, axis=0), 0.0)


def rectangle_rule(noise: NumberNoise, z_edges: Floats, cells: Cells) -> Floats:
    """g(z | x) dz at the middles of the z- and x-cells (without overflow rows): Eqs. 11-13 with |dE/dz|."""
    middles = 0.5 * (z_edges[1:] + z_edges[:-1])
    return noise.pdf(middles[:, None], cells.middles[None, :]) * np.diff(z_edges)[:, None]


def smoothing(count: int, width: float) -> Floats:
    """The Parzen window on cells: row j spreads over the cells by a normal kernel of `width` cells."""
    lag = np.arange(count)
    weights = ndtr((lag + 0.5) / width) - ndtr((lag - 0.5) / width)
    return np.asarray(weights[np.abs(lag[:, None] - lag[None, :])])
