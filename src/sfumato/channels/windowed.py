"""What the channels have in common whose density is high in a window about the truth and low elsewhere.

See `noise.window` for the law, on a grid and in floating point.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from sfumato.channels.base import EXACT_WINDOW, FLOAT_NOISE, Channel, Epsilons, Line, OnLine, Reached, register
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import UsageError
from sfumato.core.records import BRIEF
from sfumato.noise import WindowNoise, as_share, odds_epsilon, odds_threshold, uniform_integers
from sfumato.noise.grid import WORD
from sfumato.noise.window import draw_cells, draw_positions, piecewise_width, square_wave_width
from sfumato.table import Group

COARSEST, FINEST, FEWEST_CELLS = 20, 40, 256
"""log2 of the steps to the unit: as few as give the window so many cells."""
LEAST, MOST = 1e-6, 20.0
"""Epsilons of one column between which a window can be made: below nothing is told, above nobody is protected."""


@dataclass(frozen=True)
class Windowed(Channel):
    """A released number lies within half a `window` of x with probability `near`, and else anywhere outside.

    With `steps` to the unit all happens on a grid: `near` is exactly T / 2^64 of the integer T that random words are
    compared with, `window` a whole number of steps. Without, it is floating-point noise, for experiments.
    """

    near: float
    window: float
    steps: Annotated[int, BRIEF] = 0

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
            raise UsageError(
                f"The epsilon of one column must lie between {LEAST:g} and {MOST:g}. Got {epsilon:.6g}. "
                + (
                    "Less tells nothing."
                    if epsilon < LEAST
                    else "More protects nobody; report more columns, or ask less."
                )
            )
        best = cls._best_width(epsilon)
        if not exact:
            return cls(1.0 / (1.0 + math.exp(-epsilon) / best), best)
        bits = min(FINEST, max(COARSEST, math.ceil(math.log2(FEWEST_CELLS / best))))
        cells = max(1, round(best * (1 << bits)))
        threshold = odds_threshold(epsilon, cells, 1 << bits)
        assert threshold is not None  # epsilon is no smaller than what 64 bits can tell
        return cls(as_share(threshold), cells / (1 << bits), 1 << bits)

    @classmethod
    @abstractmethod
    def _best_width(cls, epsilon: float) -> float:
        """Of the window, in units of the range."""

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

    def _starts(self, x: Matrix) -> Codes:
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

    @property
    def interval(self) -> tuple[float, float]:
        return 0.0, 1.0

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        if self.steps:
            return self._of_cells(draw_cells(rng, self._starts(x), self.threshold, self.cells, self.steps))
        return self._released(draw_positions(rng, np.clip(x, 0.0, 1.0), self.near, self.window))

    def draw_anything(self, rows: int, rng: np.random.Generator) -> Matrix:
        if self.steps:
            return self._of_cells(uniform_integers(rng, self.cells + self.steps, (rows, 1)))
        return self._released((1.0 + self.window) * rng.random((rows, 1)) - 0.5 * self.window)

    @property
    def anything(self) -> float:
        return self.epsilon

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
            given = np.asarray(self._starts(x[:, 0]) + reach, dtype=np.float64)
        return OnLine("window", np.where(self._inside(u), seen, np.nan), given, reach, high, low)

    def transition(self, edges: Floats, x: Matrix) -> Matrix:
        return np.asarray(np.diff(self.raw_noise(1.0).cdf(edges[:, None], x[None, :, 0]), axis=0))

    def raw_noise(self, width: float, low: float = 0.0) -> WindowNoise:
        return WindowNoise(self.near, self.window, self.stretch, low, width)

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

    def line(self, values: Matrix) -> Line:
        gain, offset = self.mean_line()
        spread = float(self.variance(np.clip(values[:, 0], 0.0, 1.0)).mean())
        return Line(np.array([[gain]]), np.array([offset]), np.array([[spread]]))

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
            return odds_epsilon(self.threshold, self.cells, self.steps)
        return abs(math.log(self.near / ((1.0 - self.near) * self.window)))

    def moved(self, distance: float) -> float:
        return self.epsilon if distance else 0.0

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        told = 0.0 if groups[0].is_constant else self.epsilon
        return Epsilons(told, told, told)


# The piecewise mechanism: a released number is right on average [Wang et al. 2019].


@register
@dataclass(frozen=True)
class Piecewise(Windowed):
    """As the square wave, with positions spread about the middle so that E(z | x) = x.

    With t = 2x - 1 this is the published mechanism on [-C, C], C = (e^(eps/2) + 1) / (e^(eps/2) - 1): its window runs
    from l(t) = (C + 1) t / 2 - (C - 1) / 2 to l(t) + C - 1, and positions are C + 1 to the unit.
    """

    tag = "piecewise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.slope > 0:  # answers that are seldom near cannot be made right on average
            raise ValueError("near")

    @classmethod
    def _best_width(cls, epsilon: float) -> float:
        return piecewise_width(epsilon)

    @property
    def stretch(self) -> float:
        return 1.0 / self.slope

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0


# The square wave: what tells most of a distribution at a given epsilon [Li et al. 2020].


@register
@dataclass(frozen=True)
class SquareWave(Windowed):
    """Density near / window within half a window of x, e^-epsilon times that elsewhere on [-window/2, 1 + window/2].

    Its window is the one that maximises the mutual information of uniform values and their releases (an upper bound
    of it, as published). Released numbers are biased towards the middle of the range: readers go by the likelihood.
    """

    tag = "square-wave"

    @classmethod
    def _best_width(cls, epsilon: float) -> float:
        return square_wave_width(epsilon)
