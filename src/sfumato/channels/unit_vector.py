"""A whole vector released at once: PrivUnitG, whose density is high in a cap about the truth and low elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from scipy.special import ndtr, ndtri

from sfumato.channels.base import A_COUNT, EXACT_CAP, FLOAT_NOISE, Channel, Line, Reached, register
from sfumato.core.array_types import Matrix
from sfumato.core.errors import UsageError
from sfumato.core.records import BRIEF
from sfumato.noise import as_share
from sfumato.noise.cap import (
    BITS,
    best_near,
    best_tail,
    cap_epsilon,
    cap_masses,
    directions,
    draw_caps,
    draw_caps_in_floats,
    mean_length,
)
from sfumato.noise.grid import WORD

LEAST, MOST = 1e-3, 40.0
"""Epsilons between which a cap can be made."""


@register
@dataclass(frozen=True)
class UnitVector(Channel):
    """z = x radius / M, where x is a normal vector in the cap of v more often than by chance: E(z | v) = radius v.

    v is a unit vector of `dimension` coordinates, `near` the probability of its cap and `tail` where that begins, in
    standard deviations. With `bits` x lies on a grid of 2^-bits, and `near` is exactly T / 2^64: see `noise.cap`.
    """

    dimension: Annotated[int, A_COUNT]
    near: float
    tail: float
    radius: float
    bits: Annotated[int, BRIEF] = 0
    tag = "unit-vector"

    def __post_init__(self) -> None:
        if not 0 < self.near < 1 or not abs(self.tail) <= 8 or self.dimension < 2 or not 0 < self.radius < math.inf:
            raise ValueError("near")
        if self.bits and not 10 <= self.bits <= BITS:
            raise ValueError("bits")
        if not mean_length(self.near, self.tail) > 0:
            raise ValueError("near")

    @classmethod
    def of_epsilon(cls, epsilon: float, dimension: int, radius: float = 1.0, *, exact: bool = True) -> Self:
        """The cap for which z varies least; epsilon is never exceeded."""
        if not LEAST <= epsilon <= MOST:
            raise UsageError(
                f"The epsilon of a vector must lie between {LEAST:g} and {MOST:g}. Got {epsilon:.6g} instead."
            )
        tail, bits = best_tail(epsilon, dimension), BITS if exact else 0
        near = best_near(epsilon * (1 - 1e-12) - 1e-12, cap_masses(tail, dimension, bits)[0])
        return cls(dimension, as_share(int(near * WORD)), tail, radius, bits)

    @property
    def scale(self) -> float:
        """What one standard deviation of x becomes."""
        return self.radius / mean_length(self.near, self.tail)

    @property
    def width(self) -> int:
        return self.dimension

    @property
    def numbers(self) -> int:
        return self.dimension

    @property
    def path(self) -> str:
        return EXACT_CAP if self.bits else FLOAT_NOISE

    @property
    def step(self) -> float:
        return self.scale / 2.0**self.bits if self.bits else 0.0

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        if not self.bits:
            return np.asarray(draw_caps_in_floats(rng, x, self.near, self.tail) * self.scale)
        drawn = draw_caps(rng, x, int(self.near * WORD), self.tail, self.bits)
        return np.asarray(drawn * (self.scale / 2.0**self.bits), dtype=np.float64)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        mass = float(ndtr(-self.tail))
        high, low = math.log(self.near / mass), math.log((1.0 - self.near) / (1.0 - mass))
        base = -0.5 * (z**2).sum(axis=1) / self.scale**2
        base -= self.dimension * math.log(self.scale * math.sqrt(2.0 * math.pi))
        return np.asarray(base[:, None] + np.where(self._near(z, x), high, low))

    def _near(self, z: Matrix, x: Matrix) -> Any:
        if not self.bits:
            return z @ x.T >= self.tail * self.scale
        g = np.rint(z * (2.0**self.bits / self.scale))  # integers below 2^53 are exact in doubles, and so are
        s, tau = directions(x, self.tail, self.bits)  # their products as long as they stay below
        return g @ s.T.astype(np.float64) >= tau

    def mean_line(self) -> tuple[float, float]:
        return self.radius, 0.0

    def line(self, values: Matrix) -> Line:
        """E(x x' | v) = I + t M v v'."""
        length, w = mean_length(self.near, self.tail), self.dimension
        both = values.T @ values / max(1, len(values))
        spread = self.scale**2 * np.eye(w) + (self.scale**2 * self.tail * length - self.radius**2) * both
        return Line(self.radius * np.eye(w), np.zeros(w), spread)

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002 (directions have no ends)
        """A coordinate's density is at most p / Q times the normal one."""
        most = max(self.near / float(ndtr(-self.tail)), 1.0)
        reach = float(-ndtri(max(0.25 * chance / most, 1e-300))) * self.scale
        return Reached(-reach, reach)

    @property
    def epsilon(self) -> float:
        return cap_epsilon(self.near, self.tail, self.dimension, self.bits)
