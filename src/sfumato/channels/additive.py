"""Added noise of a known law, exact on a public grid or in floating point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from sfumato.channels.base import EXACT_GRID, FLOAT_NOISE, Channel, Epsilons, Line, OnLine, Reached
from sfumato.core.accepted import Positive
from sfumato.core.array_types import Matrix
from sfumato.core.errors import UsageError
from sfumato.core.records import BRIEF, Key
from sfumato.noise import Laplace, Law, OperatorNoise, discrete_laplace, make_operator
from sfumato.noise.grid import LARGEST_LOG2_SCALE
from sfumato.noise.law import tail
from sfumato.noise.laws import A_LAW, standard_laplace
from sfumato.table import Group


@dataclass(frozen=True)
class Additive(Channel):
    """z = x + e, x clipped to [low, high] first.

    With a `grid` (Laplace noise only) x is rounded to the grid points inside [low, high] and e is a discrete Laplace
    variable of exactly 2^k steps, so that the stated epsilon is that of the program and not of a formula.
    """

    law: Annotated[Law, A_LAW, Key("noise")]
    grid: Annotated[float, Positive(math.inf, or_zero=True), BRIEF] = 0.0
    low: Annotated[float, BRIEF] = -math.inf
    high: Annotated[float, BRIEF] = math.inf
    tag = "additive"
    adds = True

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError("low must not exceed high")
        if self.grid and (self.law.name != "laplace" or 2.0**self.bits * self.grid != self._scale):
            raise ValueError("the scale must be the grid times a power of two")
        if self.grid and not 0 <= self.bits <= LARGEST_LOG2_SCALE:
            raise ValueError("the grid must be no coarser than the scale, and not finer than what can be drawn")

    @property
    def _scale(self) -> float:
        return float(getattr(self.law, "scale", math.nan))

    @property
    def bits(self) -> int:
        """log2 of the steps in one scale."""
        return round(math.log2(self._scale / self.grid))

    @property
    def path(self) -> str:
        return EXACT_GRID if self.grid else FLOAT_NOISE

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        if not self.grid:
            return np.asarray(np.clip(x, self.low, self.high) + self.law.sample(rng, x.shape))
        steps = self._steps(x).astype(np.int64)
        steps += discrete_laplace(rng, self.bits, x.shape)
        return np.asarray(steps * self.grid)

    def _steps(self, x: Matrix) -> Matrix:
        """The grid points that stand for x."""
        return np.clip(np.rint(x / self.grid), *self.ends)

    @property
    def ends(self) -> tuple[float, float]:
        """The first and the last grid point that lie inside [low, high]."""
        first = math.ceil(self.low / self.grid) if math.isfinite(self.low) else -math.inf
        last = math.floor(self.high / self.grid) if math.isfinite(self.high) else math.inf
        return first, max(first, last)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        if not self.grid:
            return self.law.logpdf(z[:, 0, None] - np.clip(x[None, :, 0], self.low, self.high))
        distance = np.abs(z[:, 0, None] - self.grid * self._steps(x[None, :, 0]))
        return np.asarray(math.log(math.tanh(0.5 * self.rounding) / self.grid) - distance / self._scale)

    def on_line(self, z: Matrix, x: Matrix) -> OnLine | None:
        if self.grid:
            high = math.log(math.tanh(0.5 * self.rounding) / self.grid)
            return OnLine("laplace", z[:, 0], self.grid * self._steps(x[:, 0]), self._scale, high)
        if self.law.name not in ("laplace", "normal"):
            return None
        high = float(self.law.logpdf(0.0))
        return OnLine(self.law.name, z[:, 0], np.clip(x[:, 0], self.low, self.high), self._scale, high)

    @property
    def added_moments(self) -> tuple[float, float]:
        return self.law.variance, self.law.fourth_moment

    def mean_line(self) -> tuple[float, float]:
        return 1.0, self.law.mean

    def raw_noise(self, width: float, low: float = 0.0) -> OperatorNoise:  # noqa: ARG002
        return OperatorNoise(make_operator("additive"), self.law.scaled(width))

    @property
    def metric(self) -> tuple[str, float] | None:
        kind = {"laplace": "cityblock", "normal": "sqeuclidean"}.get(self.law.name)
        return None if kind is None else (kind, self._scale)

    def line(self, values: Matrix) -> Line:
        """Exact as long as nothing is clipped; else the best line through what values are clipped to."""
        x = values[:, 0]
        clipped = np.clip(x, self.low, self.high)
        spread = float(x.var())
        gain = float(np.mean((x - x.mean()) * clipped)) / spread if spread > 0 and np.any(clipped != x) else 1.0
        left = clipped - gain * x
        offset = float(left.mean()) + self.law.mean if gain != 1.0 else self.law.mean
        return Line(np.array([[gain]]), np.array([offset]), np.array([[self.law.variance + float(left.var())]]))

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        least, most = self.law.support
        low, high = z - most, z - least
        # whatever lies beyond an end was clipped to it
        return np.where(low <= self.low, -math.inf, low), np.where(high >= self.high, math.inf, high)

    def reach(self, low: float, high: float, chance: float) -> Reached:
        first, last, bounded = tail(self.law, chance)
        low, high = (min(max(end, self.low), self.high) for end in (low, high))
        return Reached(low + first, high + last, bounded)

    def central(self, share: float) -> float:
        return float(self.law.ppf((1 + share) / 2) - self.law.ppf((1 - share) / 2)) / 2

    # What it proves

    @property
    def steepness(self) -> float:
        return self.law.steepness

    @property
    def step(self) -> float:
        return self.grid

    @property
    def rounding(self) -> float:
        return self.grid / self._scale if self.grid else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def whole(self) -> float:
        """Epsilon between the two ends of [low, high], rounding included."""
        if self.grid:
            first, last = self.ends
            return (last - first) * self.grid / self._scale
        return self.law.log_amplification(self.high - self.low)

    def moved(self, distance: float) -> float:
        return min(self.law.log_amplification(distance) + self.rounding, self.whole) if distance else 0.0

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        """Of one number in [0, 1], as far as it is not clipped."""
        (group,) = groups
        low, high = (min(max(end, self.low), self.high) for end in (0.0, 1.0))
        told = 0.0 if group.is_constant else self.moved(high - low)
        return Epsilons(told, told, told)


# Laplace noise whose guarantee survives finite arithmetic, for many columns at once.
#
# Naive double-precision Laplace noise leaks: which doubles can occur depends on the private value (Mironov 2012; Haney
# et al. 2022). Here values are rounded to a public grid of step ``scale / 2^k`` and noise is an exact discrete Laplace
# variable in steps, so that every integer can occur whatever the value was.
#
# Rounding is accounted for: values are clipped to the grid points *inside* their interval, so one component has
# epsilon ``(n_high - n_low) / 2^k <= width / scale`` exactly; a difference of two records that is measured before
# rounding can grow by one step in every component, ``2^-k`` each (`Channel.rounding`).
TILE = 1 << 16
"""Cells that are perturbed at a time."""
FINEST = 40
"""log2 of the number of steps in one scale; finer would not fit doubles beside a wide interval."""
MOST_SCALES = 1 << 49


def laplace_channels(low: Matrix, high: Matrix, scale: Matrix, *, exact: bool) -> tuple[Additive, ...]:
    """One channel a column: Laplace noise of `scale` on values clipped to [low, high], on one fineness of grid.

    An interval has fewer than 2^52 steps, hence integers are exact in doubles.
    """
    grid = np.zeros(len(scale))
    if exact:
        with np.errstate(divide="ignore"):
            spans = np.maximum(high - low, np.maximum(np.abs(low), np.abs(high))) / scale
        widest = max(float(np.max(spans)), 1.0)
        if not widest <= MOST_SCALES:
            raise UsageError(
                f"Exact noise must be at least 2^-{MOST_SCALES.bit_length() - 1} of the values it is added to, which "
                "is as much as a double can represent. Ask for more noise, that is, a smaller epsilon."
            )
        grid = scale / 2.0 ** min(FINEST, 51 - math.ceil(math.log2(widest)))
    columns = zip(scale.tolist(), grid.tolist(), low.tolist(), high.tolist(), strict=True)
    return tuple(Additive(Laplace(scale=b), step, first, last) for b, step, first, last in columns)


def fineness(channel: Channel) -> int | None:
    """Which channels `draw_laplace` can take together: Laplace noise of one fineness (-1 for floating point)."""
    if not isinstance(channel, Additive) or not isinstance(channel.law, Laplace):
        return None
    return channel.bits if channel.grid else -1


def draw_laplace(channels: Sequence[Additive], Z: Matrix, rng: np.random.Generator) -> Matrix:
    """Clip and perturb one block, a column a channel. `Z` is overwritten.

    Noise is drawn column by column within tiles of rows that stay in the cache. The tiles depend on the number of
    columns alone, so the same rows meet the same noise however they lie in memory.
    """
    step, exact = max(1, TILE // max(1, Z.shape[1])), bool(channels[0].grid)
    ends = np.array([channel.ends if exact else channel.interval for channel in channels])
    low, high = ends[:, :1], ends[:, 1:]
    scale = np.array([[channel.grid if exact else 1.0 / channel.steepness] for channel in channels])
    for start in range(0, len(Z), step):
        columns = Z[start : start + step].T
        if exact:
            steps = columns / scale
            np.rint(steps, out=steps)
            np.clip(steps, low, high, out=steps)
            whole = discrete_laplace(rng, channels[0].bits, columns.shape)
            whole += steps.astype(np.int64)
            np.multiply(whole, scale, out=columns)
        else:
            noise = standard_laplace(rng, columns.shape)
            noise *= scale
            np.clip(columns, low, high, out=columns)
            columns += noise
    return Z
