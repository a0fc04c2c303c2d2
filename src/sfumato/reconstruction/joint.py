"""Several columns: the product of their marginals, or the density along one direction [density-reconstruction, 3.3].

A density over many columns cannot be had cell by cell. The product of the marginals is right where columns are
independent; a projection keeps what the columns have in common, one direction at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import fftconvolve

from sfumato.array_types import Floats
from sfumato.errors import CardError, UsageError
from sfumato.guarantee import Card
from sfumato.noise import Law, OperatorNoise, Uniform, make_operator
from sfumato.noise.law import floats
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.described import describe
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.reconstruct import reconstruct

_STEPS = 1 << 15
_TAIL = 1e-7
_FARTHEST = 1000.0
"""How far the grid of a sum goes into a tail, in distances of the quartiles: steps to the end of a heavy one would be
wider than the body. What lies beyond is counted at the end of the grid."""


@dataclass(frozen=True)
class Product:
    """Columns taken as independent: densities multiply."""

    marginals: tuple[Density, ...]

    def pdf(self, X: ArrayLike) -> Floats:
        """Density at every row of X, whose columns are those of `marginals`."""
        rows = np.atleast_2d(np.asarray(X, dtype=np.float64))
        return np.asarray(np.prod([m.pdf(rows[:, j]) for j, m in enumerate(self.marginals)], axis=0))

    @property
    def mean(self) -> Floats:
        return np.array([marginal.mean for marginal in self.marginals])

    def sample(self, rng: np.random.Generator, rows: int) -> Floats:
        return np.column_stack([marginal.sample(rng, rows) for marginal in self.marginals])


def reconstruct_product(
    columns: Mapping[str, Any], card: Card, *, method: str | Method = "parzen-program", **options: Any
) -> Product:
    """Reconstruct every column by itself; `columns` maps names to released values."""
    found = [reconstruct(values, card, column=name, method=method, **options) for name, values in columns.items()]
    wrong = [one.name for one in found if not isinstance(one, Density)]
    if wrong:
        raise UsageError(f"Column {wrong[0]!r} is categorical; a product density takes numbers only.")
    return Product(tuple(one for one in found if isinstance(one, Density)))


def reconstruct_along(
    columns: Mapping[str, ArrayLike],
    weights: Mapping[str, float],
    card: Card,
    *,
    method: str | Method = "parzen-program",
    **options: Any,
) -> Density:
    """The density of a weighted sum of columns with additive noise: its noise is the weighted sum of theirs."""
    used = {name: float(weight) for name, weight in weights.items() if weight != 0}
    if not used:
        raise UsageError("A projection needs at least one weight that is not 0.")
    laws: list[Law] = []
    low, high, projected = 0.0, 0.0, np.zeros(0)
    for name, weight in used.items():
        one = describe(card, name)
        if one.noise is None or not one.noise.operator.is_additive or one.is_categorical:
            raise CardError(f"Column {name!r} has no additive noise, so its sum with others has no known noise.")
        if one.missing_keep is not None:
            raise CardError(f"Column {name!r} may be missing; a sum with it is not defined for everybody.")
        laws.append(reflected(one.noise.law, weight))
        low, high = low + min(weight * one.low, weight * one.high), high + max(weight * one.low, weight * one.high)
        if name not in columns:
            raise UsageError(f"There is a weight for column {name!r}, but no values of it.")
        values = np.asarray(columns[name], dtype=np.float64).ravel()
        if len(projected) not in (0, len(values)):
            raise UsageError("The columns of a projection have different numbers of rows.")
        projected = weight * values + (projected if len(projected) else 0.0)
    noise = OperatorNoise(make_operator("additive"), SumLaw.of(laws))
    title = " + ".join(f"{weight:g} {name}" for name, weight in used.items())
    found = reconstruct(projected, noise, column=title, method=method, **{"support": (low, high), **options})
    assert isinstance(found, Density)
    return found


def reflected(law: Law, weight: float) -> Law:
    """The law of `weight` times the noise; all laws but the uniform one are symmetric about 0."""
    if weight < 0 and isinstance(law, Uniform):
        low, high = law.support
        return Uniform(low=weight * high, high=weight * low)
    return law.scaled(abs(weight))


def _reach(law: Law) -> tuple[float, float]:
    """Where a law has all but its far tails."""
    middle, half = float(law.ppf(0.5)), _FARTHEST * float(law.ppf(0.75) - law.ppf(0.25))
    low = max(law.support[0], float(law.ppf(_TAIL)), middle - half)
    return low, min(law.support[1], float(law.ppf(1 - _TAIL)), middle + half)


@dataclass(frozen=True)
class SumLaw(Law):
    """Noise that is the sum of independent noises, on a fine grid: cell probabilities of each, convolved."""

    terms: tuple[Law, ...]
    edges: Floats = field(repr=False, compare=False, default_factory=lambda: np.zeros(0))
    cumulative: Floats = field(repr=False, compare=False, default_factory=lambda: np.zeros(0))
    name: ClassVar[str] = "sum"

    @classmethod
    def of(cls, terms: Sequence[Law]) -> SumLaw:
        ends = [_reach(term) for term in terms]
        step = sum(high - low for low, high in ends) / _STEPS
        mass, start = np.ones(1), 0.0
        for term, (low, high) in zip(terms, ends, strict=True):
            count = max(1, int(np.ceil((high - low) / step)))
            cells = low + step * (np.arange(count + 1) - 0.5)  # cells about the points low + k step
            cells[0], cells[-1] = -np.inf, np.inf
            mass = fftconvolve(mass, np.diff(term.cdf(cells)))
            start += low
        mass = np.maximum(mass, 0.0)
        edges: Floats = start + step * (np.arange(len(mass) + 1.0) - 0.5)
        return cls(tuple(terms), edges, np.concatenate([[0.0], np.cumsum(mass) / mass.sum()]))

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
