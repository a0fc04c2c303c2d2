"""The Epanechnikov law: the kernel of least mean square error, and noise that can never exceed its half-width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Floats
from sfumato.noise.grid import Shape
from sfumato.noise.law import Law, check_positive, check_width, floats, settle

TILE = 1 << 14
"""Values drawn at a time: three uniforms for each of them stay in a core's cache."""


@dataclass(frozen=True)
class Epanechnikov(Law):
    """f(z) = 3 (1 - (z/h)^2) / (4 h) on [-h, h], h = `scale` [kernel-resampling, Eq. 11].

    It is the law of the median of three uniform variables on [-h, h]: the middle one of three has density
    6 F (1 - F) / (2 h) with F = (1 + z/h) / 2. The distribution function (2 + 3u - u^3) / 4, u = z/h, is inverted by
    u = 2 sin(asin(2p - 1) / 3).
    """

    scale: float
    name: ClassVar[str] = "epanechnikov"

    def __post_init__(self) -> None:
        settle(self, scale=check_positive(self, "scale", self.scale))

    def logpdf(self, z: ArrayLike) -> Floats:
        u = floats(z) / self.scale
        inside = np.where(np.abs(u) < 1.0, u, 0.0)
        log = np.log1p(-(inside**2)) + math.log(0.75 / self.scale)
        return floats(np.where(np.isnan(u), math.nan, np.where(np.abs(u) < 1.0, log, -math.inf)))

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        return floats((2.0 + u * (3.0 - u**2)) / 4.0)

    def ppf(self, p: ArrayLike) -> Floats:
        with np.errstate(invalid="ignore"):
            return floats(self.scale * 2.0 * np.sin(np.arcsin(2.0 * floats(p) - 1.0) / 3.0))

    @property
    def variance(self) -> float:
        return self.scale**2 / 5.0

    @property
    def fourth_moment(self) -> float:
        return 3.0 * self.scale**4 / 35.0

    @property
    def support(self) -> tuple[float, float]:
        return -self.scale, self.scale

    def log_amplification(self, width: float = 1.0) -> float:
        return math.inf if check_width(width) > 0 else 0.0

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
