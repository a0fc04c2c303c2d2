r"""What random factors do to squared distances: noise that is larger where the value is.

A column is released as z = x f, in units in which its zero is 0 (`origin` is subtracted), f with mean m, variance v
and fourth central moment k, symmetric about m. A query y is put where it lies on average, at m y. With f = m + g the
squared distance is

    (z - m y)^2 = m^2 (x - y)^2 + 2 m (x - y) x g + x^2 g^2,

and its distortion has the mean v x^2, which differs from row to row: a class of large values would be heard too
little. But E[z^2 | x] = (m^2 + v) x^2, so that r z^2 with r = v / (m^2 + v) has the same mean, whatever x is. With
this taken off a row's squared distance, and the mean over all rows put in its place, the distortion is

    D = sum 2 m g x ((1 - r) x - y) + (1 - r) x^2 (g^2 - v) + v E[x^2],

    E(D) = sum v E[x^2],
    Var(D) = sum 4 m^2 v ((1 - r)^2 a_4 - 2 (1 - r) a_3 a_1 + a_2^2) + (1 - r)^2 (k - v^2) a_4.

Rows x and queries y are independent and of one population, with moments a_n = E[x^n] = E[z^n] / E[f^n]. Given x and y
every term has mean zero and the factors of different columns are independent, so that columns may be correlated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes, Floats
from sfumato.channels import Recipe


@dataclass(frozen=True)
class FactorNoise:
    """The multiplied columns of a release matrix, where the zero of each lies in it, and moments of their factors."""

    columns: Codes
    origin: Floats
    mean: Floats
    variance: Floats
    fourth_moment: Floats

    @classmethod
    def of(cls, recipe: Recipe) -> FactorNoise | None:
        """The multiplied columns of a release; None where nothing was multiplied."""
        pairs = zip(recipe.places, (channel.factor for channel in recipe.channels), strict=True)
        found = [(place.start, factor) for place, factor in pairs if factor is not None]
        if not found:
            return None
        columns, factors = zip(*found, strict=True)
        origin, *moments = np.array(factors, dtype=np.float64).T
        return cls(np.array(columns, dtype=np.int64), origin, *moments)

    @property
    def share(self) -> Floats:
        """r: how much of z^2 is noise on average; 1 for a factor without variance."""
        with np.errstate(invalid="ignore"):
            found = self.variance / (self.mean**2 + self.variance)
        return np.where(np.isfinite(self.variance), found, 1.0)

    def of_rows(self, rows: Floats) -> Floats:
        """sum r z^2 for every row: an unbiased estimate of the squared length of the noise in it."""
        return np.asarray((rows[:, self.columns] - self.origin) ** 2 @ self.share)

    def distortion(self, rows: Floats) -> tuple[float, float]:
        """E(D) and Var(D) of squared distances, `of_rows` replaced by its mean; infinite where the moments are."""
        if not np.isfinite(self.variance).all():
            return np.inf, np.inf
        z, m, v, k, r = rows[:, self.columns] - self.origin, self.mean, self.variance, self.fourth_moment, self.share
        a1 = np.divide(z.mean(axis=0), m, out=np.zeros_like(m), where=m != 0)
        a2 = np.mean(z**2, axis=0) / (m**2 + v)
        mean = float(v @ a2)
        if not np.isfinite(k).all():
            return mean, np.inf
        cubes = m**3 + 3 * m * v
        a3 = np.divide(np.mean(z**3, axis=0), cubes, out=np.zeros_like(m), where=cubes != 0)
        a4 = np.mean(z**4, axis=0) / (m**4 + 6 * m**2 * v + k)
        crossed = 4 * m**2 * v * ((1 - r) ** 2 * a4 - 2 * (1 - r) * a3 * a1 + a2**2)
        return mean, float(np.maximum(crossed + (1 - r) ** 2 * (k - v**2) * a4, 0.0).sum())
