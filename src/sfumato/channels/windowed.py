"""Channels for a number in a public range whose density is high in a window about the truth and low elsewhere.

See `noise.window` for the law, on a grid and in floating point.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels.base import EXACT_WINDOW, FLOAT_NOISE, Channel, Epsilons, Line, OnLine, Reached
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.core.records import BRIEF
from sfumato.noise import response
from sfumato.noise.grid import WORD, exact_bernoulli, random_words, uniform_integers
from sfumato.noise.law import floats
from sfumato.table import Group

COARSEST, FINEST, FEWEST_CELLS = 20, 40, 256
"""log2 of the steps to the unit: as few as give the window so many cells."""
LEAST, MOST = 1e-6, 20.0
"""Epsilons of one column between which a window can be made: below nothing is told, above little is protected."""


class InRange(Channel):
    """A number in [0, 1], where any two numbers are told apart by the same `epsilon` at most."""

    interval = 0.0, 1.0

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """Between any two numbers."""

    @abstractmethod
    def raw_noise(self, width: float, low: float = 0.0) -> response.WindowNoise | HybridNoise: ...

    @abstractmethod
    def variance(self, x: Matrix) -> Matrix:
        """Var(z | x), of second degree in x."""

    @property
    def variance_curve(self) -> tuple[float, float, float]:
        first, middle, last = self.variance(np.array([0.0, 0.5, 1.0])).tolist()
        bend = 2.0 * (first - 2.0 * middle + last)
        return first, last - first - bend, bend

    def line(self, values: Matrix) -> Line:
        gain, offset = self.mean_line()
        spread = float(self.variance(np.clip(values[:, 0], 0.0, 1.0)).mean())
        return Line(np.array([[gain]]), np.array([offset]), np.array([[spread]]))

    def transition(self, edges: Floats, x: Matrix) -> Matrix:
        return np.asarray(np.diff(self.raw_noise(1.0).cdf(edges[:, None], x[None, :, 0]), axis=0))

    def moved(self, distance: float) -> float:
        return self.epsilon if distance else 0.0

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        told = 0.0 if groups[0].is_constant else self.epsilon
        return Epsilons(told, told, told)


@dataclass(frozen=True)
class Windowed(InRange):
    """A released number lies within half a `window` of x with probability `near`, and else anywhere outside.

    With `steps` to the unit all happens on a grid: `near` is exactly T / 2^64 of the integer T that random words are
    compared with, `window` a whole number of steps. Without, it is floating-point noise, for experiments.
    """

    near: float
    window: float
    steps: Annotated[int, BRIEF] = 0
    best_width: ClassVar[Callable[..., float]]
    """Of the window for an epsilon, in units of the range."""

    def __post_init__(self) -> None:
        if not 0 < self.near < 1 or not 0 < self.window <= 1:
            raise ValueError("near")
        if self.steps and (self.steps & (self.steps - 1) or not 2 <= self.steps <= 1 << FINEST):
            raise ValueError("steps")
        if self.steps and not float(self.window * self.steps).is_integer():
            raise ValueError("window")

    @classmethod
    def of_epsilon(cls, epsilon: float, *, exact: bool = True) -> Self:
        """The best window for this epsilon, which is never exceeded."""
        if not LEAST <= epsilon <= MOST:
            less, more = "Less tells nothing.", "More protects nobody; report more columns, or ask less."
            raise UsageError(
                f"The epsilon of one column must lie between {LEAST:g} and {MOST:g}. Got {epsilon:.6g}. "
                f"{less if epsilon < LEAST else more}"
            )
        best = cls.best_width(epsilon)
        if not exact:
            return cls(1.0 / (1.0 + math.exp(-epsilon) / best), best)
        bits = min(FINEST, max(COARSEST, math.ceil(math.log2(FEWEST_CELLS / best))))
        cells = max(1, round(best * (1 << bits)))
        threshold = response.odds_threshold(epsilon, cells, 1 << bits)
        assert threshold is not None  # epsilon is no smaller than what 64 bits can tell
        return cls(response.as_share(threshold), cells / (1 << bits), 1 << bits)

    @property
    def stretch(self) -> float:
        """By what positions are spread about 1/2 before they are released."""
        return 1.0

    # The grid

    @property
    def cells(self) -> int:
        """Of the window."""
        return int(self.window * self.steps)

    @property
    def threshold(self) -> int:
        return int(self.near * WORD)

    def starts(self, x: Matrix) -> Codes:
        """The first cell of everybody's window."""
        return np.rint(np.clip(x, 0.0, 1.0) * self.steps).astype(np.int64)

    def _released(self, positions: Matrix) -> Matrix:
        return np.asarray(0.5 + self.stretch * (positions - 0.5))

    def _of_cells(self, cells: Codes) -> Matrix:
        """The middle of each cell."""
        return self._released((cells + 0.5) / self.steps - 0.5 * self.window)

    def _positions(self, z: Matrix) -> Matrix:
        return np.asarray(0.5 + (z - 0.5) / self.stretch)

    # What it does

    @property
    def path(self) -> str:
        return EXACT_WINDOW if self.steps else FLOAT_NOISE

    @property
    def step(self) -> float:
        return self.stretch / self.steps if self.steps else 0.0

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        if self.steps:
            return self._of_cells(response.draw_cells(rng, self.starts(x), self.threshold, self.cells, self.steps))
        return self._released(response.draw_positions(rng, np.clip(x, 0.0, 1.0), self.near, self.window))

    def draw_anything(self, rows: int, rng: np.random.Generator) -> Matrix:
        if self.steps:
            return self._of_cells(uniform_integers(rng, self.cells + self.steps, (rows, 1)))
        return self._released((1.0 + self.window) * rng.random((rows, 1)) - 0.5 * self.window)

    def log_anything(self, z: Matrix) -> Matrix:
        """The uniform density: between the two others, which have the same mass in all."""
        inside = self._inside(self._positions(z[:, 0]))
        return np.where(inside, -math.log((1.0 + self.window) * self.stretch), -np.inf)

    def _inside(self, positions: Matrix) -> Matrix:
        reach = 0.5 * (1.0 + self.window) * (1.0 + 1e-9)
        return np.asarray(np.abs(positions - 0.5) <= reach)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        line = self.on_line(z, x)
        near = np.abs(line.seen[:, None] - line.given[None, :]) <= line.scale
        return np.where(np.isnan(line.seen)[:, None], -np.inf, np.where(near, line.high, line.low))

    def on_line(self, z: Matrix, x: Matrix) -> OnLine:
        u = self._positions(z[:, 0])
        high = math.log(self.near / (self.window * self.stretch))
        low = math.log((1.0 - self.near) / self.stretch)
        if not self.steps:
            seen, given, reach = u, np.asarray(np.clip(x[:, 0], 0.0, 1.0)), 0.5 * self.window
        else:  # a cell is known again after raw units have rounded its middle; halves of whole numbers are exact
            reach = 0.5 * (self.cells - 1)
            seen = np.rint((u + 0.5 * self.window) * self.steps - 0.5)
            given = np.asarray(self.starts(x[:, 0]) + reach, dtype=np.float64)
        return OnLine("window", np.where(self._inside(u), seen, np.nan), given, reach, high, low)

    def raw_noise(self, width: float, low: float = 0.0) -> response.WindowNoise:
        return response.WindowNoise(self.near, self.window, self.stretch, low, width)

    # What is known of it

    @property
    def slope(self) -> float:
        """E(position | x) = slope (x - 1/2) + 1/2: near x, and else the mean of what lies outside."""
        return self.near - (1.0 - self.near) * self.window

    def mean_line(self) -> tuple[float, float]:
        gain = self.stretch * self.slope
        return gain, 0.5 * (1.0 - gain)

    def variance(self, x: Matrix) -> Matrix:
        """Var(z | x); of the squares outside the window, which have length 1, the integral is taken."""
        half = 0.5 * self.window
        inside = x**2 + half**2 / 3.0
        outside = ((x - half) ** 3 + half**3 + (1.0 + half) ** 3 - (x + half) ** 3) / 3.0
        mean = 0.5 + self.slope * (x - 0.5)
        return np.asarray((self.near * inside + (1.0 - self.near) * outside - mean**2) * self.stretch**2)

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002 (it is bounded)
        reach = 0.5 * self.stretch * (1.0 + self.window)
        return Reached(0.5 - reach, 0.5 + reach)

    def central(self, share: float) -> float:
        """The window, or part of it; beyond, whatever lies next to it."""
        if share <= self.near:
            return 0.5 * self.stretch * self.window * share / self.near
        return 0.5 * self.stretch * (self.window + (share - self.near) / (1.0 - self.near))

    # What it proves

    @property
    def epsilon(self) -> float:
        if self.steps:
            return response.odds_epsilon(self.threshold, self.cells, self.steps)
        return abs(math.log(self.near / ((1.0 - self.near) * self.window)))

    anything = epsilon


# The piecewise mechanism: a released number is right on average [Wang et al. 2019].
@dataclass(frozen=True)
class Piecewise(Windowed):
    """As the square wave, with positions spread about the middle so that E(z | x) = x.

    With t = 2x - 1 this is the published mechanism on [-C, C], C = (e^(eps/2) + 1) / (e^(eps/2) - 1): its window runs
    from l(t) = (C + 1) t / 2 - (C - 1) / 2 to l(t) + C - 1, and positions are C + 1 to the unit.
    """

    tag = "piecewise"
    best_width = staticmethod(response.piecewise_width)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.slope > 0:  # answers that are seldom near cannot be made right on average
            raise ValueError("near")

    @property
    def stretch(self) -> float:
        return 1.0 / self.slope

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0


# The square wave: what tells most of a distribution at a given epsilon [Li et al. 2020].
@dataclass(frozen=True)
class SquareWave(Windowed):
    """Density near / window within half a window of x, e^-epsilon times that elsewhere on [-window/2, 1 + window/2].

    Its window is the one that maximises the mutual information of uniform values and their releases (an upper bound
    of it, as published). Released numbers are biased towards the middle of the range: readers go by the likelihood.
    """

    tag = "square-wave"
    best_width = staticmethod(response.square_wave_width)


# The hybrid mechanism: a piecewise number, or now and then one of two ends; right on average [Wang et al. 2019].
LARGEST_OF_ENDS = 0.61
"""Up to this epsilon the two ends alone vary least."""
ROUGH = 40
"""`least` is a multiple of 2^(40 - 64), so that the threshold grows by a whole number from step to step."""
POINT = 2.0**-20
"""Width that stands for a single point where a density is asked for."""


@dataclass(frozen=True)
class Hybrid(InRange):
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
            often = response.as_share(int(often * WORD))
            least = math.ceil(least * 2.0 ** (64 - ROUGH)) / 2.0 ** (64 - ROUGH)
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
        steps = self.window.steps
        x = self.window.starts(x) / steps if steps else np.clip(x, 0.0, 1.0)
        return np.asarray(self.least + (1.0 - 2.0 * self.least) * x)

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        low, high = self.ends
        if self.window.steps:
            piecewise = exact_bernoulli(rng, int(self.often * WORD), x.shape)
            grows = (WORD - 2 * self.lowest) // self.window.steps
            threshold = np.uint64(self.lowest) + self.window.starts(x).astype(np.uint64) * np.uint64(grows)
            upper = random_words(rng, x.size).reshape(x.shape) < threshold
        else:
            piecewise = rng.random(x.shape) < self.often
            upper = rng.random(x.shape) < self._upper(x)
        return np.where(piecewise, self.window.draw(x, rng), np.where(upper, high, low))

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        """At the two ends a probability over `POINT`; a piecewise number lies there hardly ever."""
        low, high = (np.abs(z[:, 0] - end) < 1e-7 for end in self.ends)
        upper = self._upper(x[None, :, 0])
        with np.errstate(divide="ignore"):
            found = np.log(self.often) + self.window.log_likelihood(z, x)
        at_end = math.log((1.0 - self.often) / POINT) + np.log(np.where(high[:, None], upper, 1.0 - upper))
        return np.where((low | high)[:, None], at_end, found)

    def below(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:
        """With all of an end's mass at its point."""
        z = x[:, 0] + (edges[:, None] - x[:, 0]) / share
        (low, high), upper = self.ends, self._upper(x[:, 0])
        at_ends = (1.0 - upper) * (z >= low) + upper * (z >= high)
        return np.asarray(self.often * self.window.raw_noise(1.0).cdf(z, x[:, 0]) + (1.0 - self.often) * at_ends)

    def raw_noise(self, width: float, low: float = 0.0) -> HybridNoise:
        return HybridNoise(self.window.raw_noise(width, low), self.often, self.least)

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0

    def variance(self, x: Matrix) -> Matrix:
        """Both ways have mean x, so their variances mix."""
        ends = (0.5 * (self.ends[1] - self.ends[0])) ** 2 - (x - 0.5) ** 2
        return np.asarray(self.often * self.window.variance(x) + (1.0 - self.often) * ends)

    def reach(self, low: float, high: float, chance: float) -> Reached:
        wide = self.window.reach(low, high, chance)
        return wide if self.often else Reached(*self.ends)

    @property
    def epsilon(self) -> float:
        exact = self.window.steps > 0
        two = response.odds_epsilon(WORD - self.lowest, 1, 1) if exact else math.log((1.0 - self.least) / self.least)
        return max(self.window.epsilon, two) if self.often else two


@dataclass(frozen=True)
class HybridNoise:
    """Its law in raw units. An end has the width of a point, inside: a histogram between both counts it in."""

    window: response.WindowNoise
    often: float
    least: float

    @property
    def _half(self) -> float:
        """How far the ends lie from the middle, as a share of the range."""
        return 0.5 / (1.0 - 2.0 * self.least)

    def _ramps(self, z: ArrayLike) -> tuple[Floats, Floats]:
        u = (floats(z) - self.window.low) / self.window.range - 0.5
        return np.clip((u + self._half) / POINT, 0.0, 1.0), np.clip((u - self._half) / POINT + 1.0, 0.0, 1.0)

    def _upper(self, x: ArrayLike) -> Floats:
        inside = np.clip((floats(x) - self.window.low) / self.window.range, 0.0, 1.0)
        return floats(self.least + (1.0 - 2.0 * self.least) * inside)

    def cdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """P(Z <= z | x)."""
        (low, high), upper = self._ramps(z), self._upper(x)
        ends = (1.0 - upper) * low + upper * high
        return floats(self.often * self.window.cdf(z, x) + (1.0 - self.often) * ends)

    def pdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """The density of z given x."""
        (low, high), upper = self._ramps(z), self._upper(x)
        there = (1.0 - upper) * ((low > 0) & (low < 1)) + upper * ((high > 0) & (high < 1))
        return floats(self.often * self.window.pdf(z, x) + (1.0 - self.often) * there / (POINT * self.window.range))

    def span(self, x: ArrayLike, tail: float = 0.0) -> tuple[Floats, Floats]:
        """Least and largest z that x can become; at least both ends."""
        ends = [self.window.low + self.window.range * (0.5 + side * self._half) for side in (-1.0, 1.0)]
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
