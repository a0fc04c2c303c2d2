"""Noise that is the sum of independent noises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Floats
from sfumato.noise.law import Law, floats

_STEPS = 1 << 15
_TAIL = 1e-7
_FARTHEST = 1000.0
"""How far the grid of a sum goes into a tail, in distances of the quartiles: steps to the end of a heavy one would be
wider than the body. What lies beyond is counted at the end of the grid."""


def _reach(law: Law) -> tuple[float, float]:
    """Where a law has all but its far tails."""
    middle, half = float(law.ppf(0.5)), _FARTHEST * float(law.ppf(0.75) - law.ppf(0.25))
    low = max(law.support[0], float(law.ppf(_TAIL)), middle - half)
    return low, min(law.support[1], float(law.ppf(1 - _TAIL)), middle + half)


@dataclass(frozen=True)
class SumLaw(Law):
    """Noise that is the sum of independent noises, on a fine grid: cell probabilities of each, convolved.

    The grid is made when a density is first asked for: many have only to draw.
    """

    terms: tuple[Law, ...]
    steps: int = _STEPS
    name: ClassVar[str] = "sum"

    @classmethod
    def of(cls, terms: Sequence[Law], steps: int = _STEPS) -> SumLaw:
        return cls(tuple(terms), steps)

    @cached_property
    def _grid(self) -> tuple[Floats, Floats]:
        """Edges of the cells, and P(Z <= edge)."""
        from scipy.signal import fftconvolve  # takes a second to load, and few ask for a density

        ends = [_reach(term) for term in self.terms]
        step = sum(high - low for low, high in ends) / self.steps
        mass, start = np.ones(1), 0.0
        for term, (low, high) in zip(self.terms, ends, strict=True):
            count = max(1, int(np.ceil((high - low) / step)))
            cells = low + step * (np.arange(count + 1) - 0.5)  # cells about the points low + k step
            cells[0], cells[-1] = -np.inf, np.inf
            mass = fftconvolve(mass, np.diff(term.cdf(cells)))
            start += low
        mass = np.maximum(mass, 0.0)
        edges: Floats = start + step * (np.arange(len(mass) + 1.0) - 0.5)
        return edges, np.concatenate([[0.0], np.cumsum(mass) / mass.sum()])

    @property
    def edges(self) -> Floats:
        return self._grid[0]

    @property
    def cumulative(self) -> Floats:
        return self._grid[1]

    def logpdf(self, z: ArrayLike) -> Floats:
        density = np.diff(self.cumulative) / np.diff(self.edges)
        middles = 0.5 * (self.edges[1:] + self.edges[:-1])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.interp(floats(z), middles, density, left=0.0, right=0.0)))

    def cdf(self, z: ArrayLike) -> Floats:
        return np.asarray(np.interp(floats(z), self.edges, self.cumulative))

    def ppf(self, p: ArrayLike) -> Floats:
        return np.asarray(np.interp(floats(p), self.cumulative, self.edges))

    @property
    def mean(self) -> float:
        return sum(term.mean for term in self.terms)

    @property
    def variance(self) -> float:
        return sum(term.variance for term in self.terms)

    @property
    def fourth_moment(self) -> float:
        """Of independent summands: the sum of fourth moments and six times the products of variances."""
        v = [term.variance for term in self.terms]
        pairs = sum(v[i] * v[j] for i in range(len(v)) for j in range(i))
        return sum(term.fourth_moment for term in self.terms) + 6.0 * pairs

    @property
    def support(self) -> tuple[float, float]:
        return sum(term.support[0] for term in self.terms), sum(term.support[1] for term in self.terms)

    def log_amplification(self, width: float = 1.0) -> float:
        """At most that of any one summand: the others do not depend on the value."""
        return min(term.log_amplification(width) for term in self.terms)

    def sample(self, rng: np.random.Generator, shape: Any) -> Floats:
        return np.asarray(sum(term.sample(rng, shape) for term in self.terms))

    def scaled(self, factor: float) -> Self:
        return type(self)(tuple(term.scaled(factor) for term in self.terms), self.steps)

    def to_dict(self) -> dict[str, Any]:
        return {"law": self.name, "terms": [term.to_dict() for term in self.terms]}
