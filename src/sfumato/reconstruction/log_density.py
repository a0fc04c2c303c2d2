"""The density as the exponential of a smooth curve: what the released values say of it, and how surely.

    log p = f + a log u + b log(1 - u) + c log^2 u + d log^2(1 - u) + e u^2,   second differences of f ~ N(0, 1 / r),

u in (0, 1) is the place in the range, r the precision below. Flat, exponential, normal, gamma, beta and lognormal
columns need no f at all; near the ends of the range a density may rise or fall like a power. The likelihood is that of
the counts: n ~ multinomial(G p), as in Eilers' composite link model (2007). For every r the most probable curve is
found by Fisher scoring; with the curvature there it gives the probability of r itself (Laplace's approximation).

Point masses are further cells whose probability no neighbour holds back.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sfumato.core.array_types import Floats
from sfumato.reconstruction.evidence import Evidence
from sfumato.reconstruction.parzen_program import second_differences

KNOTS = 75
"""Knots of the curve; more cells than twice as many interpolate between them."""
ROUGHNESS = 10.0 ** np.arange(6.0, -0.1, -0.5)
"""Precisions of second differences that are tried, for `KNOTS` knots: straight lines to peaks of a single cell."""
_DEVIATIONS = np.array([20.0, 20.0, 5.0, 5.0, 30.0])
"""Of the coefficients a to e. A lognormal column whose median is 3% of its range needs a = -6 and c = -1: these must
not be unlikely, or the band of a skewed column leaves out what is true."""
MOST_ROWS = 100_000
"""More rows count as so many: beyond that not chance is the limit, but the cells, within which densities are even."""
_LOOSE = 1e-3
"""Precision that holds the curve's level where nothing else does."""
_ROUNDS = 100
_LARGEST_STEP, _SHORTEST_STEP = 3.0, 1e-9


@dataclass(frozen=True)
class Fitted:
    """The most probable curve at one roughness: `log_evidence` of it, and the curvature as a triangle U, U'U = H."""

    roughness: float
    theta: Floats
    log_evidence: float
    triangle: Floats
    precision: Floats
    """Of the prior, (knots + ...) x (knots + ...)."""


class LogDensity:
    """The model for given counts; `columns` are the spreads of point masses, one matrix for each part."""

    def __init__(self, evidence: Sequence[Evidence], columns: Sequence[Floats] = ()) -> None:
        kept = [1.0 - one.part.hidden for one in evidence]
        spreads = [one.spread for one in evidence]
        self.cells = spreads[0].shape[1]
        if columns:
            spreads = [np.hstack([spread, more]) for spread, more in zip(spreads, columns, strict=True)]
        counted = min(1.0, MOST_ROWS / sum(one.n for one in evidence))
        self.counts: Floats = counted * np.concatenate([one.counts for one in evidence])
        self.G: Floats = np.vstack([share * spread for share, spread in zip(kept, spreads, strict=True)])
        self.background: Floats = np.concatenate([one.part.hidden * one.background for one in evidence])
        self.rows: Floats = np.concatenate([np.full(len(one.counts), counted * one.n) for one in evidence])
        self._met = self.counts > 0
        self.knots = KNOTS if self.cells > 2 * KNOTS else self.cells
        # Second differences between k knots are (75 / k)^1.5 times as large: the same curve, the same probability.
        self.scale = (self.knots / KNOTS) ** 3
        self.points = self.G.shape[1] - self.cells
        self.design, self._differences = _curve(self.cells, self.knots, self.points)

    def masses(self, theta: Floats) -> Floats:
        """Probabilities of cells and points, for one curve or several (columns)."""
        height = self.design @ theta
        height = np.exp(height - height.max(axis=0))
        return np.asarray(height / height.sum(axis=0))

    def likelihood(self, mass: Floats) -> tuple[Floats, Floats]:
        """Log-likelihood, and its derivative by the heights of the curve."""
        ratio, expected = self._ratio(mass)
        pull = self.G.T @ ratio
        pull -= (mass * pull).sum(axis=0)
        return np.asarray(self.counts[self._met] @ np.log(expected[self._met])), np.asarray(mass * pull)

    def _ratio(self, mass: Floats) -> tuple[Floats, Floats]:
        background = self.background if mass.ndim == 1 else self.background[:, None]
        counts = self.counts if mass.ndim == 1 else self.counts[:, None]
        expected = np.maximum(self.G @ mass + background, 1e-300)
        return np.asarray(counts / expected), expected

    def expected(self, mass: Floats) -> Floats:
        """Probabilities of the cells of z, part below part."""
        return np.asarray(self.G @ mass + self.background)

    def fit(self, roughness: float, start: Floats) -> Fitted:
        """Climb to the most probable curve; steps are halved until they lead upwards."""
        precision = roughness * self._differences + _prior(self.design.shape[1])
        theta, value = start, self._posterior(start, precision)
        for _ in range(_ROUNDS):
            mass = self.masses(theta)
            slope = self.design.T @ self.likelihood(mass)[1] - precision @ theta
            triangle = cho_factor(self._information(mass) + precision)
            step = cho_solve(triangle, slope)
            gain = float(slope @ step)
            if gain < 1e-4:
                break
            length = min(1.0, _LARGEST_STEP / float(np.abs(self.design @ step).max()))
            while (found := self._posterior(theta + length * step, precision)) < value + 1e-4 * length * gain:
                length *= 0.5
                if length < _SHORTEST_STEP:
                    break
            if found <= value:  # at the top, as far as sums of logarithms tell
                break
            theta, value = theta + length * step, found
        upper = np.triu(triangle[0])
        volume = 0.5 * (self.knots - 2) * np.log(roughness) - float(np.log(np.diag(upper)).sum())
        return Fitted(roughness, theta, value + volume, upper, precision)

    def moved(self, point: int, spread: Floats) -> LogDensity:
        """The same with another spread of one point mass."""
        other = copy.copy(self)
        other.G = self.G.copy()
        other.G[:, self.cells + point] = spread
        return other

    def path(self) -> list[Fitted]:
        """The fits at every roughness, from the smoothest on, each beginning where the one before ended."""
        theta, found = np.zeros(self.design.shape[1]), []
        for roughness in self.scale * ROUGHNESS:
            found.append(self.fit(float(roughness), theta))
            theta = found[-1].theta
        return found

    def _posterior(self, theta: Floats, precision: Floats) -> float:
        return float(self.likelihood(self.masses(theta))[0]) - 0.5 * float(theta @ precision @ theta)

    def _information(self, mass: Floats) -> Floats:
        """Fisher's, of the curve's parameters."""
        change = self.changes(mass)
        return np.asarray((change.T * (self.rows / np.maximum(self.expected(mass), 1e-300))) @ change)

    def changes(self, mass: Floats) -> Floats:
        """Derivatives of the cells of z by the curve's parameters."""
        return np.asarray(((self.G - (self.G @ mass)[:, None]) * mass) @ self.design)


def _curve(cells: int, knots: int, points: int) -> tuple[Floats, Floats]:
    """The matrix from parameters (knots, points, coefficients) to heights, and the knots' squared differences."""
    place = (np.arange(cells) + 0.5) / cells
    curve = np.eye(cells, knots)
    if knots < cells:
        at = place * (knots - 1)
        left = np.minimum(at.astype(np.int64), knots - 2)
        curve = np.zeros((cells, knots))
        curve[np.arange(cells), left] = 1.0 - (at - left)
        curve[np.arange(cells), left + 1] = at - left
    powers = np.column_stack([np.log(place), np.log1p(-place)])
    shapes = np.column_stack([powers, powers**2, (place - 0.5) ** 2])
    free = knots + points
    design = np.zeros((cells + points, free + shapes.shape[1]))
    design[:cells, :knots], design[:cells, free:] = curve, shapes
    design[cells:, knots:free] = np.eye(points)
    rough = second_differences(knots)
    squares = np.zeros((design.shape[1], design.shape[1]))
    squares[:knots, :knots] = rough.T @ rough
    return design, squares


def _prior(parameters: int) -> Floats:
    """Precision of what is no difference: the level, hardly; the coefficients."""
    loose = np.full(parameters - len(_DEVIATIONS), _LOOSE)
    return np.diag(np.concatenate([loose, _DEVIATIONS**-2.0]))


def log_sum(values: Sequence[float]) -> float:
    """log sum exp."""
    top = max(values)
    return float(top + np.log(np.sum(np.exp(np.array(values) - top))))
