"""The hybrid mechanism: a piecewise number, or now and then one of two ends; right on average [Wang et al. 2019]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.base import Channel, Epsilons, Line, Reached, register
from sfumato.channels.windowed import Piecewise
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.noise import WindowNoise, as_share, exact_bernoulli, odds_epsilon
from sfumato.noise.grid import WORD, random_words
from sfumato.noise.law import floats
from sfumato.table import Group

LARGEST_OF_ENDS = 0.61
"""Up to this epsilon the two ends alone vary least."""
ROUGH = 40
"""`least` is a multiple of 2^(40 - 64), so that the threshold grows by a whole number from step to step."""
POINT = 2.0**-20
"""Width that stands for a single point where a density is asked for."""


@register
@dataclass(frozen=True)
class Hybrid(Channel):
    """With probability `often` the number goes through `window`; else it becomes one of two ends about the middle.

    The upper end has probability least + (1 - 2 least) x [Duchi et al. 2018], in steps of the window's grid. Which of
    both ways is taken does not depend on x, so the epsilon is the larger of theirs.
    """

    window: Piecewise
    often: float
    least: float
    tag = "hybrid"

    def __post_init__(self) -> None:
        if not 0 <= self.often < 1 or not 0 < self.least < 0.5:
            raise ValueError("often")
        if self.window.steps and (self.lowest % (1 << ROUGH) or int(self.often * WORD) != self.often * WORD):
            raise ValueError("least")

    @classmethod
    def of_epsilon(cls, epsilon: float, *, exact: bool = True) -> Self:
        """The mixture with the least worst-case variance: 1 - e^(-eps/2) of it piecewise, from .61 on."""
        window = Piecewise.of_epsilon(epsilon, exact=exact)
        often = 1.0 - math.exp(-epsilon / 2.0) if epsilon > LARGEST_OF_ENDS else 0.0
        least = 1.0 / (math.exp(epsilon) + 1.0)
        if exact:
            often, least = as_share(int(often * WORD)), math.ceil(least * 2.0 ** (64 - ROUGH)) / 2.0 ** (64 - ROUGH)
        return cls(window, often, least)

    @property
    def lowest(self) -> int:
        """The threshold of the upper end where x = 0."""
        return int(self.least * WORD)

    @property
    def ends(self) -> tuple[float, float]:
        """Half of 1 / (1 - 2 least) to both sides of the middle: so the mean is x."""
        half = 0.5 / (1.0 - 2.0 * self.least)
        return 0.5 - half, 0.5 + half

    @property
    def path(self) -> str:
        return self.window.path

    @property
    def step(self) -> float:
        return self.window.step

    def _upper(self, x: Matrix) -> Matrix:
        """P(the upper end | x)."""
        x = np.clip(x, 0.0, 1.0)
        if self.window.steps:
            x = np.rint(x * self.window.steps) / self.window.steps
        return np.asarray(self.least + (1.0 - 2.0 * self.least) * x)

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        steps, low_high = self.window.steps, self.ends
        if steps:
            piecewise = exact_bernoulli(rng, int(self.often * WORD), x.shape)
            start: Codes = np.rint(np.clip(x, 0.0, 1.0) * steps).astype(np.int64)
            grows = (WORD - 2 * self.lowest) // steps
            threshold = np.uint64(self.lowest) + start.astype(np.uint64) * np.uint64(grows)
            upper = random_words(rng, x.size).reshape(x.shape) < threshold
        else:
            piecewise = rng.random(x.shape) < self.often
            upper = rng.random(x.shape) < self._upper(x)
        return np.where(piecewise, self.window.draw(x, rng), np.where(upper, low_high[1], low_high[0]))

    def _at_ends(self, z: Matrix) -> tuple[Flags, Flags]:
        low, high = self.ends
        return np.asarray(np.abs(z - low) < 1e-7), np.asarray(np.abs(z - high) < 1e-7)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        """At the two ends a probability over `POINT`; a piecewise number lies there hardly ever."""
        low, high = self._at_ends(z[:, 0])
        upper = self._upper(x[None, :, 0])
        with np.errstate(divide="ignore"):
            found = np.log(self.often) + self.window.log_likelihood(z, x)
        at_end = math.log((1.0 - self.often) / POINT) + np.log(np.where(high[:, None], upper, 1.0 - upper))
        return np.where((low | high)[:, None], at_end, found)

    def raw_noise(self, width: float, low: float = 0.0) -> HybridNoise:
        return HybridNoise(self.window.raw_noise(width, low), self.often, self.least)

    def transition(self, edges: Floats, x: Matrix) -> Matrix:
        return np.asarray(np.diff(self.raw_noise(1.0).cdf(edges[:, None], x[None, :, 0]), axis=0))

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0

    def variance(self, x: Matrix) -> Matrix:
        """Both ways have mean x, so their variances mix."""
        ends = (0.5 * (self.ends[1] - self.ends[0])) ** 2 - (x - 0.5) ** 2
        return np.asarray(self.often * self.window.variance(x) + (1.0 - self.often) * ends)

    def line(self, values: Matrix) -> Line:
        spread = float(self.variance(np.clip(values[:, 0], 0.0, 1.0)).mean())
        return Line(np.eye(1), np.zeros(1), np.array([[spread]]))

    def reach(self, low: float, high: float, chance: float) -> Reached:
        wide = self.window.reach(low, high, chance)
        return wide if self.often else Reached(*self.ends)

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def epsilon(self) -> float:
        exact = self.window.steps > 0
        two = odds_epsilon(WORD - self.lowest, 1, 1) if exact else math.log((1.0 - self.least) / self.least)
        return max(self.window.epsilon, two) if self.often else two

    def moved(self, distance: float) -> float:
        return self.epsilon if distance else 0.0

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        told = 0.0 if groups[0].is_constant else self.epsilon
        return Epsilons(told, told, told)


@dataclass(frozen=True)
class HybridNoise:
    """Its law in raw units. An end has the width of a point, inside: a histogram between both counts it in."""

    window: WindowNoise
    often: float
    least: float

    def _ramps(self, z: ArrayLike) -> tuple[Floats, Floats, float]:
        half, point = 0.5 / (1.0 - 2.0 * self.least), POINT
        u = (floats(z) - self.window.low) / self.window.range - 0.5
        return np.clip((u + half) / point, 0.0, 1.0), np.clip((u - half) / point + 1.0, 0.0, 1.0), half

    def _upper(self, x: ArrayLike) -> Floats:
        inside = np.clip((floats(x) - self.window.low) / self.window.range, 0.0, 1.0)
        return floats(self.least + (1.0 - 2.0 * self.least) * inside)

    def cdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """P(Z <= z | x)."""
        low, high, _ = self._ramps(z)
        upper = self._upper(x)
        ends = (1.0 - upper) * low + upper * high
        return floats(self.often * self.window.cdf(z, x) + (1.0 - self.often) * ends)

    def pdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """The density of z given x."""
        low, high, _ = self._ramps(z)
        upper = self._upper(x)
        there = (1.0 - upper) * ((low > 0) & (low < 1)) + upper * ((high > 0) & (high < 1))
        return floats(self.often * self.window.pdf(z, x) + (1.0 - self.often) * there / (POINT * self.window.range))

    def span(self, x: ArrayLike, tail: float = 0.0) -> tuple[Floats, Floats]:
        """Least and largest z that x can become; at least both ends."""
        half = 0.5 / (1.0 - 2.0 * self.least)
        ends = [self.window.low + self.window.range * (0.5 + side * half) for side in (-1.0, 1.0)]
        low, high = self.window.span(x, tail)
        if not self.often:
            return np.full(low.shape, ends[0]), np.full(low.shape, ends[1])
        return np.minimum(low, ends[0]), np.maximum(high, ends[1])

    def stretched(self, factor: float) -> HybridNoise:
        """The same with a wider window."""
        return HybridNoise(self.window.stretched(factor), self.often, self.least)

    def check(self, low: float, high: float, where: str = "The values") -> None:
        """Refuse another range than the one that the window slides over."""
        self.window.check(low, high, where)

    def to_dict(self) -> Mapping[str, Any]:
        """Plain figures, to compare two of them."""
        return {**self.window.to_dict(), "law": "hybrid", "often": self.often, "least": self.least}
