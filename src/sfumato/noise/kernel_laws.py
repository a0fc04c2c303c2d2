"""Two more laws of bounded noise that serve as kernels: the triangle and the biweight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from sfumato.array_types import Floats
from sfumato.noise.grid import Shape
from sfumato.noise.law import Law, check_positive, check_width, floats, settle


@dataclass(frozen=True)
class Triangular(Law):
    """f(z) = (1 - |z/h|) / h on [-h, h], h = `scale`: the sum of two uniform variables on [-h/2, h/2]."""

    scale: float
    name: ClassVar[str] = "triangular"

    def __post_init__(self) -> None:
        settle(self, scale=check_positive(self, "scale", self.scale))

    def logpdf(self, z: ArrayLike) -> Floats:
        u = np.abs(floats(z)) / self.scale
        inside = np.where(u < 1.0, u, 0.0)
        log = np.log1p(-inside) - math.log(self.scale)
        return floats(np.where(np.isnan(u), math.nan, np.where(u < 1.0, log, -math.inf)))

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        tail = 0.5 * (1.0 - np.abs(u)) ** 2
        return floats(np.where(u < 0, tail, 1.0 - tail))

    def ppf(self, p: ArrayLike) -> Floats:
        q = floats(p)
        with np.errstate(invalid="ignore"):
            low, high = np.sqrt(2.0 * q) - 1.0, 1.0 - np.sqrt(2.0 * (1.0 - q))
        return floats(np.where((q >= 0) & (q <= 1), self.scale * np.where(q < 0.5, low, high), math.nan))

    @property
    def variance(self) -> float:
        return self.scale**2 / 6.0

    @property
    def fourth_moment(self) -> float:
        return self.scale**4 / 15.0

    @property
    def support(self) -> tuple[float, float]:
        return -self.scale, self.scale

    def log_amplification(self, width: float = 1.0) -> float:
        return math.inf if check_width(width) > 0 else 0.0

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        noise = rng.random(shape)
        noise += rng.random(shape)
        noise -= 1.0
        noise *= self.scale
        return noise


@dataclass(frozen=True)
class Biweight(Law):
    """f(z) = 15 (1 - (z/h)^2)^2 / (16 h) on [-h, h], h = `scale`: a Beta(3, 3) variable stretched over [-h, h]."""

    scale: float
    name: ClassVar[str] = "biweight"

    def __post_init__(self) -> None:
        settle(self, scale=check_positive(self, "scale", self.scale))

    def logpdf(self, z: ArrayLike) -> Floats:
        u = floats(z) / self.scale
        inside = np.where(np.abs(u) < 1.0, u, 0.0)
        log = 2.0 * np.log1p(-(inside**2)) + math.log(0.9375 / self.scale)
        return floats(np.where(np.isnan(u), math.nan, np.where(np.abs(u) < 1.0, log, -math.inf)))

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        return floats(special.betainc(3.0, 3.0, (1.0 + u) / 2.0))

    def ppf(self, p: ArrayLike) -> Floats:
        return floats(self.scale * (2.0 * special.betaincinv(3.0, 3.0, floats(p)) - 1.0))

    @property
    def variance(self) -> float:
        return self.scale**2 / 7.0

    @property
    def fourth_moment(self) -> float:
        return self.scale**4 / 21.0

    @property
    def support(self) -> tuple[float, float]:
        return -self.scale, self.scale

    def log_amplification(self, width: float = 1.0) -> float:
        return math.inf if check_width(width) > 0 else 0.0

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        return floats(self.scale * (2.0 * rng.beta(3.0, 3.0, shape) - 1.0))
