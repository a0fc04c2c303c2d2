"""Channels without noise of their own: released as it is, or changed in a way that nobody states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from sfumato.channels.additive import Additive
from sfumato.channels.base import A_COUNT, Channel, Epsilons, Line, NotApplicableError, Reached, register
from sfumato.core.array_types import Matrix
from sfumato.noise import Normal, OperatorNoise
from sfumato.table import Group


@register
@dataclass(frozen=True)
class Exact(Channel):
    """What was true is released. It tells everything, except where there is only one possible value."""

    columns: Annotated[int, A_COUNT] = 1
    tag = "exact"

    @property
    def width(self) -> int:
        return self.columns

    @property
    def numbers(self) -> int:
        return self.columns

    @property
    def is_exact(self) -> bool:
        return True

    def fits(self, groups: Sequence[Group]) -> bool:
        return bool(groups)

    def raw_noise(self, width: float, low: float = 0.0) -> OperatorNoise | None:  # noqa: ARG002
        return None

    def draw_anything(self, rows: int, rng: np.random.Generator) -> Matrix:  # noqa: ARG002
        return np.full((rows, self.columns), 0.5)  # the only value of a constant

    def log_anything(self, z: Matrix) -> Matrix:
        return np.where((np.abs(z - 0.5) <= 1e-9).all(axis=1), 0.0, -np.inf)

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0

    @property
    def kept(self) -> float:
        return 1.0

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:  # noqa: ARG002
        return x

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        same = (np.abs(z[:, None, :] - x[None, :, :]) <= 1e-9).all(axis=2)
        return np.where(same, 0.0, -np.inf)

    def blurred(self, width: float) -> Channel:
        return Additive(Normal(width)) if self.columns == 1 else self

    def line(self, values: Matrix) -> Line:  # noqa: ARG002
        w = self.columns
        return Line(np.eye(w), np.zeros(w), np.zeros((w, w)))

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        return z, z

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002
        return Reached(low, high)

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        told = math.inf if any(len(group.vertices) > 1 for group in groups) else 0.0
        return Epsilons(told, told, told)


NOT_STATED = (
    "the card does not say how its cells were changed; if they were rounded and clipped, sanitize without "
    "--like-original"
)


@register
@dataclass(frozen=True)
class Unstated(Channel):
    """The cell was changed, and its law is not stated: rounded and clipped afterwards, or redrawn from a group.

    What is stated is that cells lie in [low, high].
    """

    columns: Annotated[int, A_COUNT] = 1
    low: float = 0.0
    high: float = 1.0
    tag = "unstated"

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError("low must not exceed high")

    def fits(self, groups: Sequence[Group]) -> bool:
        return bool(groups)

    @property
    def is_stated(self) -> bool:
        return False

    @property
    def numbers(self) -> int:
        return min(self.columns, 1)

    @property
    def width(self) -> int:
        return self.columns

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:  # noqa: ARG002
        raise NotApplicableError("a channel whose law is not stated cannot be drawn from")

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002
        return Reached(self.low, self.high)

    def raw_noise(self, width: float, low: float = 0.0) -> OperatorNoise | None:  # noqa: ARG002
        raise NotApplicableError(NOT_STATED)

    @property
    def kept(self) -> float:
        raise NotApplicableError(NOT_STATED)

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0  # whatever was done, it was meant to leave values where they are
