"""A column that only some rows report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sfumato.array_types import Floats, Matrix
from sfumato.channels.base import Channel, Epsilons, Factor, Line, OnLine, Reached, number, read, register, stated
from sfumato.noise import NumberNoise, Operator
from sfumato.table import Group


@register
@dataclass(frozen=True)
class Sampled(Channel):
    """Each row reports the column with probability `rate`, whatever its value; else the cell is not reported (NaN).

    Which cells are reported is public and says nothing, so the guarantee is that of the channel inside: sampling costs
    nothing, and amplifies nothing since the set of reported cells is released. A mechanism that must report exactly so
    many columns of each row chooses them itself and draws with `inner`; `rate` is then each column's share of rows.
    """

    inner: Channel
    rate: float
    tag = "sampled"

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1 or self.inner.leaves_out:
            raise ValueError("rate")

    def fits(self, groups: Sequence[Group]) -> bool:
        return self.inner.fits(groups)

    def blurred(self, width: float) -> Channel:
        return replace(self, inner=self.inner.blurred(width))

    def knowing(self, operator: Operator) -> Channel:
        return replace(self, inner=self.inner.knowing(operator))

    def mean_line(self) -> tuple[float, float]:
        return self.inner.mean_line()

    @property
    def added_moments(self) -> tuple[float, float]:
        return self.inner.added_moments

    @property
    def factor(self) -> Factor | None:
        return self.inner.factor

    def raw_noise(self, width: float, low: float = 0.0) -> NumberNoise | None:
        return self.inner.raw_noise(width, low)

    def transition(self, edges: Floats, x: Matrix) -> Matrix:
        """Of the cells that are reported."""
        return self.inner.transition(edges, x)

    @property
    def hides_missing(self) -> bool:
        return self.inner.hides_missing

    @property
    def kept(self) -> float:
        return self.inner.kept

    @property
    def width(self) -> int:
        return self.inner.width

    @property
    def numbers(self) -> int:
        return self.inner.numbers

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def is_stated(self) -> bool:
        return self.inner.is_stated

    @property
    def adds(self) -> bool:
        return self.inner.adds

    @property
    def leaves_out(self) -> bool:
        return True

    @property
    def reported(self) -> float:
        return self.rate

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        reported = rng.random(len(x)) < self.rate
        out = np.full((len(x), self.width), np.nan)
        out[reported] = self.inner.draw(np.ascontiguousarray(x[reported]), rng)
        return out

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        """A cell that is not reported is as likely for everybody."""
        found = np.full((len(z), len(x)), math.log1p(-self.rate) if self.rate < 1 else 0.0)
        reported = ~np.isnan(z).any(axis=1)
        found[reported] = math.log(self.rate) + self.inner.log_likelihood(z[reported], x)
        return found

    def on_line(self, z: Matrix, x: Matrix) -> OnLine | None:
        line = self.inner.on_line(z, x)
        if line is None:
            return None
        seen = np.where(np.isnan(z).any(axis=1), np.inf, line.seen)
        silent, told = math.log1p(-self.rate) if self.rate < 1 else 0.0, math.log(self.rate)
        return line._replace(seen=seen, high=told + line.high, low=told + line.low, silent=silent)

    def line(self, values: Matrix) -> Line:
        """Of the cells that are reported."""
        return self.inner.line(values)

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        low, high = super().possible(z)
        reported = ~np.isnan(z).any(axis=1)
        low[reported], high[reported] = self.inner.possible(z[reported])
        return low, high

    def reach(self, low: float, high: float, chance: float) -> Reached:
        return self.inner.reach(low, high, chance)

    def central(self, share: float) -> float:
        """Of the values that are reported."""
        return self.inner.central(share)

    @property
    def least_share(self) -> float:
        """Among the rows that report it."""
        return self.inner.least_share

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        return self.inner.epsilons(groups)

    def moved(self, distance: float) -> float:
        return self.inner.moved(distance)

    @property
    def interval(self) -> tuple[float, float]:
        return self.inner.interval

    @property
    def step(self) -> float:
        return self.inner.step

    @property
    def rounding(self) -> float:
        return self.inner.rounding

    @property
    def steepness(self) -> float:
        return self.inner.steepness

    def to_dict(self) -> dict[str, Any]:
        return {"inner": stated(self.inner), "rate": self.rate}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        return cls(read(found["inner"]), number(found, "rate"))
