"""What every law of additive noise can say about itself, and the checks of its parameters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.core.errors import wrong_parameter
from sfumato.noise.grid import Shape

_LENGTHS = ("scale", "low", "high")
"""Parameters that are measured in the units of the noise; the others (degrees of freedom) are pure numbers."""


@dataclass(frozen=True)
class Law(ABC):
    """A law of additive noise."""

    name: ClassVar[str]

    @abstractmethod
    def logpdf(self, z: ArrayLike) -> Floats:
        """log f(z)."""

    def pdf(self, z: ArrayLike) -> Floats:
        """f(z)."""
        return floats(np.exp(self.logpdf(z)))

    @abstractmethod
    def cdf(self, z: ArrayLike) -> Floats:
        """P(Z <= z)."""

    @abstractmethod
    def ppf(self, p: ArrayLike) -> Floats:
        """The z with P(Z <= z) = p; NaN outside [0, 1]."""

    @property
    def mean(self) -> float:
        """E Z, which is the centre of symmetry."""
        return 0.0

    @property
    def is_symmetric(self) -> bool:
        """Whether it is symmetric about its mean."""
        return True

    @property
    @abstractmethod
    def variance(self) -> float:
        """E (Z - mean)^2; infinite where it does not exist."""

    @property
    @abstractmethod
    def fourth_moment(self) -> float:
        """E (Z - mean)^4; infinite where it does not exist."""

    @property
    def support(self) -> tuple[float, float]:
        """The closed interval outside of which the density is 0."""
        return -math.inf, math.inf

    def log_amplification(self, width: float = 1.0) -> float:
        """sup of log f(z) - log f(z - delta), |delta| <= width: the epsilon of a value that can move by `width`.

        Infinite where no ratio is bounded, as where a law ends and the other goes on.
        """
        return math.inf if check_width(width) > 0 else 0.0

    @property
    def steepness(self) -> float:
        """sup of |d log f(z) / dz|: no move by `width` changes the log-likelihood by more than so many times it."""
        return math.inf

    @abstractmethod
    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        """Draw floating-point noise: quick, for experiments; a formal guarantee needs `discrete_laplace`."""

    def scaled(self, factor: float) -> Self:
        """The law of `factor` times this noise: the same noise in other units."""
        changes = {
            name: factor * value for name, value in asdict(self).items() if name in _LENGTHS and value is not None
        }
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The law as a card states it."""
        return {"law": self.name, **asdict(self)}


@dataclass(frozen=True)
class ScaleLaw(Law):
    """A law whose only parameter is its scale.

    A child gives its second and fourth moment at scale 1, as numerator and denominator.
    """

    second: ClassVar[tuple[float, float]]
    fourth: ClassVar[tuple[float, float]]
    scale: float

    def __post_init__(self) -> None:
        settle(self, scale=check_finite(self, "scale", self.scale, positive=True))

    @property
    def variance(self) -> float:
        return self.second[0] * self.scale**2 / self.second[1]

    @property
    def fourth_moment(self) -> float:
        return self.fourth[0] * self.scale**4 / self.fourth[1]


FURTHEST = 100.0
"""Distances of a law's quartile from its middle. Laplace noise needs 65 of them for fifty billion cells."""


def tail(law: Law, chance: float) -> tuple[float, float, bool]:
    """The interval that noise leaves with this probability, and whether it is short enough to hold values against.

    Student's t has a polynomial tail: honest values lie thousands of scales out, and no interval tells them from forged
    ones. Laws are symmetric about their mean, and their lower tail is the one that doubles can tell.
    """
    if not law.is_symmetric:
        low, high = law.support
        if math.isfinite(low) and math.isfinite(high):
            return low, high, True
        rare = max(chance / 2, 1e-14)
        return max(low, float(law.ppf(rare))), min(high, float(law.ppf(1 - rare))), False
    least = max(law.support[0], float(law.ppf(chance / 2))) - law.mean
    furthest = FURTHEST * (float(law.ppf(0.25)) - law.mean)
    half = -max(least, furthest)
    return law.mean - half, law.mean + half, least >= furthest


def floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def settle(law: Law, **values: float) -> None:
    for key, value in values.items():
        object.__setattr__(law, key, value)  # the only door into a frozen dataclass


def check_finite(law: Law, parameter: str, value: Any, *, positive: bool = False) -> float:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or (positive and not value > 0):
        raise wrong_parameter(parameter, law.name, f"a {'positive' if positive else 'finite'} number", value)
    return float(value)


def check_width(width: float) -> float:
    if not width >= 0:
        raise wrong_parameter("width", "amplification", "a non-negative number", width)
    return float(width)
