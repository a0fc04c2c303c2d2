"""A column whose missing cells are hidden: a missing cell is one more value, and its release shows anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sfumato.array_types import Floats, Matrix
from sfumato.channels.base import Channel, Epsilons, Line, Reached, read, register, stated
from sfumato.noise import NumberNoise
from sfumato.table import Group


@register
@dataclass(frozen=True)
class HidesMissing(Channel):
    """(columns of `inner`, indicator): a present cell goes through `inner`; a missing one shows any outcome of it, each
    as likely. Nothing is ever *reported* missing, so an empty released cell can mean "not reported" and nothing else.

    With two levels of probability the uniform law lies between them, so "missing" is one more input value within the
    same epsilon.
    """

    inner: Channel
    tag = "hides-missing"

    def __post_init__(self) -> None:
        if self.inner.leaves_out or self.inner.hides_missing:
            raise ValueError("inner")

    def fits(self, groups: Sequence[Group]) -> bool:
        return len(groups) == 1 and groups[0].column.missing and groups[0].width == self.width

    @property
    def hides_missing(self) -> bool:
        return True

    @property
    def width(self) -> int:
        return self.inner.width + 1

    @property
    def numbers(self) -> int:
        return self.inner.numbers

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def is_stated(self) -> bool:
        return self.inner.is_stated

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        missing = x[:, -1] > 0.5
        shown = self.inner.draw(np.array(x[:, :-1]), rng)
        anything = self.inner.draw_anything(len(x), rng)  # for everybody: the time tells nobody who is missing
        return np.column_stack([np.where(missing[:, None], anything, shown), np.zeros(len(x))])

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        found = self.inner.log_likelihood(z[:, :-1], x[:, :-1])
        found[:, x[:, -1] > 0.5] = self.inner.log_anything(z[:, :-1])[:, None]
        return found

    def line(self, values: Matrix) -> Line:
        """The indicator is always 0. A number that is missing lies at the middle of the range, as any value does on
        average; a category that is missing adds the same to every slot."""
        missing = values[:, -1] > 0.5 if len(values) > 1 else np.zeros(len(values), dtype=bool)
        share = float(values[:, -1].mean())
        present = values[~missing, :-1] if (~missing).any() else values[:, :-1]
        if self.numbers:
            return self._number_line(present, share)
        return self._category_line(values.mean(axis=0))

    def _number_line(self, present: Matrix, share: float) -> Line:
        one = self.inner.line(present)
        low, high, _ = self.inner.reach(0.0, 1.0, 0.0)
        spread = (1.0 - share) * one.covariance[0, 0] + share * (high - low) ** 2 / 12.0
        spread = 0.0 if self.inner.is_exact else spread  # a constant
        gain, cov = np.zeros((2, 2)), np.zeros((2, 2))
        gain[0, 0], cov[0, 0] = one.gain[0, 0], spread
        return Line(gain, np.array([one.offset[0], 0.0]), cov)

    def _category_line(self, mu: Matrix) -> Line:
        """P = c + G x exactly, where x is a unit vector, so that E(x x') = diag(mu)."""
        k = self.inner.width
        told = np.exp(self.inner.log_likelihood(np.eye(k), np.eye(k)))
        floor = float(told[0, 1]) if k > 1 else 0.0
        gain, offset = np.zeros((k + 1, k + 1)), np.append(np.full(k, floor), 0.0)
        gain[:k, :k] = told - floor
        gain[:k, k] = 1.0 / k - floor
        mean = offset + gain @ mu
        both = np.outer(offset, gain @ mu)
        second = np.outer(offset, offset) + both + both.T + gain @ np.diag(mu) @ gain.T
        return Line(gain, offset, np.diag(mean) - second)

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        return np.zeros(z.shape), np.ones(z.shape)  # it may always have been missing

    def reach(self, low: float, high: float, chance: float) -> Reached:
        return self.inner.reach(low, high, chance)

    @property
    def least_share(self) -> float:
        """None: the slot for "missing" is never reported."""
        return 0.0

    @property
    def kept(self) -> float:
        """Of those who are not missing."""
        return self.inner.kept

    def transition(self, edges: Floats, x: Matrix) -> Matrix:
        found = self.inner.transition(edges, x[:, :-1])
        low, high, _ = self.inner.reach(0.0, 1.0, 0.0)
        found[:, x[:, -1] > 0.5] = np.diff(np.clip((edges - low) / (high - low), 0.0, 1.0))[:, None]
        return found

    def raw_noise(self, width: float, low: float = 0.0) -> NumberNoise | None:
        return self.inner.raw_noise(width, low)

    def mean_line(self) -> tuple[float, float]:
        return self.inner.mean_line()

    @property
    def step(self) -> float:
        return self.inner.step

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        """That of the values, or of a value and the uniform law, whichever is larger; 0 where all show the same."""
        (group,) = groups
        if group.is_constant or (group.is_onehot and self.inner.width == 1):
            return Epsilons(0.0, 0.0, 0.0)
        told = self.inner.anything if group.is_onehot else max(self.inner.moved(1.0), self.inner.anything)
        return Epsilons(told, told, told)

    def to_dict(self) -> dict[str, Any]:
        return {"inner": stated(self.inner)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        return cls(read(found["inner"]))
