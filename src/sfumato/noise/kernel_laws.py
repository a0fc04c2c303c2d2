"""Laws of noise that can never exceed its half-width, which serve as kernels: Epanechnikov, triangle, biweight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its parts are loaded when one is first used
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.noise.grid import Shape
from sfumato.noise.law import Law, ScaleLaw, floats

# Noise that is the sum of independent noises.


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


TILE = 1 << 14
"""Values drawn at a time: three uniforms for each of them stay in a core's cache."""


@dataclass(frozen=True)
class BoundedKernel(ScaleLaw):
    """c (1 - |z/h|^a)^b / h on [-h, h], h = `scale`; a child names c, a and b."""

    height: ClassVar[float]
    inner: ClassVar[int]
    outer: ClassVar[int]

    def logpdf(self, z: ArrayLike) -> Floats:
        u = np.abs(floats(z)) / self.scale
        inside = np.where(u < 1.0, u, 0.0)
        log = self.outer * np.log1p(-(inside**self.inner)) + math.log(self.height / self.scale)
        return floats(np.where(np.isnan(u), math.nan, np.where(u < 1.0, log, -math.inf)))

    @property
    def support(self) -> tuple[float, float]:
        return -self.scale, self.scale


@dataclass(frozen=True)
class Epanechnikov(BoundedKernel):
    """f(z) = 3 (1 - (z/h)^2) / (4 h) on [-h, h], h = `scale` [kernel-resampling, Eq. 11].

    It is the law of the median of three uniform variables on [-h, h]: the middle one of three has density
    6 F (1 - F) / (2 h) with F = (1 + z/h) / 2. The distribution function (2 + 3u - u^3) / 4, u = z/h, is inverted by
    u = 2 sin(asin(2p - 1) / 3).
    """

    name: ClassVar[str] = "epanechnikov"
    second, fourth = (1.0, 5.0), (3.0, 35.0)
    height, inner, outer = 0.75, 2, 1

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        return floats((2.0 + u * (3.0 - u**2)) / 4.0)

    def ppf(self, p: ArrayLike) -> Floats:
        with np.errstate(invalid="ignore"):
            return floats(self.scale * 2.0 * np.sin(np.arcsin(2.0 * floats(p) - 1.0) / 3.0))

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        noise = np.empty(shape)
        flat = noise.reshape(-1)
        for start in range(0, flat.size, TILE):
            part = flat[start : start + TILE]
            first, second, third = rng.random((3, part.size))
            np.minimum(first, second, out=part)
            np.maximum(first, second, out=first)
            np.minimum(first, third, out=first)
            np.maximum(first, part, out=part)  # the median of the three
        noise -= 0.5
        noise *= 2.0 * self.scale
        return noise


@dataclass(frozen=True)
class Triangular(BoundedKernel):
    """f(z) = (1 - |z/h|) / h on [-h, h], h = `scale`: the sum of two uniform variables on [-h/2, h/2]."""

    name: ClassVar[str] = "triangular"
    second, fourth = (1.0, 6.0), (1.0, 15.0)
    height, inner, outer = 1.0, 1, 1

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        tail = 0.5 * (1.0 - np.abs(u)) ** 2
        return floats(np.where(u < 0, tail, 1.0 - tail))

    def ppf(self, p: ArrayLike) -> Floats:
        q = floats(p)
        with np.errstate(invalid="ignore"):
            low, high = np.sqrt(2.0 * q) - 1.0, 1.0 - np.sqrt(2.0 * (1.0 - q))
        return floats(np.where((q >= 0) & (q <= 1), self.scale * np.where(q < 0.5, low, high), math.nan))

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        noise = rng.random(shape)
        noise += rng.random(shape)
        noise -= 1.0
        noise *= self.scale
        return noise


@dataclass(frozen=True)
class Biweight(BoundedKernel):
    """f(z) = 15 (1 - (z/h)^2)^2 / (16 h) on [-h, h], h = `scale`: a Beta(3, 3) variable stretched over [-h, h]."""

    name: ClassVar[str] = "biweight"
    second, fourth = (1.0, 7.0), (1.0, 21.0)
    height, inner, outer = 0.9375, 2, 2

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        return floats(scipy.special.betainc(3.0, 3.0, (1.0 + u) / 2.0))

    def ppf(self, p: ArrayLike) -> Floats:
        return floats(self.scale * (2.0 * scipy.special.betaincinv(3.0, 3.0, floats(p)) - 1.0))

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        return floats(self.scale * (2.0 * rng.beta(3.0, 3.0, shape) - 1.0))
