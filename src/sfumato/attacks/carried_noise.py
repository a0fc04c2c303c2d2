"""Noise that an operator other than addition carries into a column, as the adversary sees it: in encoded units.

The card states operator and law in raw units: z = Z(e, x). Encoded, u = (x - low) / width of the source becomes
(z - low) / width of the release. Likelihood and hard interval are exact. A linear attack needs a line and a variance,
z ~ slope u + offset: the best line in the population, and what it leaves. For multiplicative noise that is
exact too: E(z | x) = m x is a line, and the rest, of variance Var(e) E(x^2), is uncorrelated with everything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.noise import OperatorNoise

Floats = NDArray[np.float64]

_VALUES = 500
_NODES = 1000
_STEPS = 2000
"""Values of the population and of the noise over which a line is averaged; steps of the range for an interval."""


@dataclass(frozen=True)
class CarriedNoise:
    """One column's noise; `slope`, `offset` and `variance` are the best line in a population (see `of`)."""

    noise: OperatorNoise
    low: float
    width: float
    slope: float = 1.0
    offset: float = 0.0
    variance: float = 0.0

    @classmethod
    def of(cls, noise: OperatorNoise, low: float, width: float, values: ArrayLike) -> CarriedNoise:
        """With the line that fits best where encoded source values are spread like `values`."""
        u = np.asarray(values, dtype=np.float64)
        plain = cls(noise, low, width)
        if noise.operator.name != "multiplicative" and len(u) > _VALUES:
            u = np.quantile(u, (np.arange(_VALUES) + 0.5) / _VALUES)
        mean, variance = plain.moments(u)
        centre, spread = float(u.mean()), float(u.var())
        slope = float(np.mean((u - centre) * mean)) / spread if spread > 1e-12 else noise.slope
        left = float(variance.mean()) + float(mean.var()) - slope**2 * spread
        return cls(noise, low, width, slope, float(mean.mean()) - slope * centre, max(left, 0.0))

    def raw(self, u: ArrayLike) -> Floats:
        """Encoded values in the column's own units."""
        return np.asarray(self.low + self.width * np.asarray(u, dtype=np.float64))

    def logpdf(self, z: ArrayLike, u: ArrayLike) -> Floats:
        """log f(z | u), both encoded."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.noise.pdf(self.raw(z), self.raw(u)) * self.width))

    def moments(self, u: ArrayLike) -> tuple[Floats, Floats]:
        """Mean and variance of z given u; by the midpoint rule over the noise where there is no closed form."""
        x, law = self.raw(u), self.noise.law
        if self.noise.operator.name == "multiplicative":
            mean, variance = self.noise.slope * x, law.variance * x**2
        else:
            e = law.ppf((np.arange(_NODES) + 0.5) / _NODES)
            z = self.noise.operator.forward(e[:, None], x[None, :])
            mean, variance = z.mean(axis=0), z.var(axis=0)
        return np.asarray((mean - self.low) / self.width), np.asarray(variance / self.width**2)

    def possible(self, z: ArrayLike) -> tuple[Floats, Floats]:
        """The least and the largest u that can have become z; to a 2000th of the range, on the safe side.

        Where none can (a release that was changed), all of the range.
        """
        u = np.linspace(0.0, 1.0, _STEPS + 1)
        low, high = self.noise.span(self.raw(u))
        seen = self.raw(z)[:, None]
        fits = (low <= seen) & (seen <= high)
        # A set that lies between two steps shows in neither: both ends of a step must be on different sides of z.
        crossed = ((low[:-1] > seen) & (high[1:] < seen)) | ((high[:-1] < seen) & (low[1:] > seen))
        fits[:, :-1] |= crossed
        fits = np.where(fits.any(axis=1, keepdims=True), fits, True)
        first, last = fits.argmax(axis=1), _STEPS - fits[:, ::-1].argmax(axis=1)
        return np.maximum(u[first] - 1 / _STEPS, 0.0), np.minimum(u[last] + 1 / _STEPS, 1.0)
