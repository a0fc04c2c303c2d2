"""Randomized response: a category is reported truly with a known probability, else another one [Warner 1965]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from sfumato.channels.base import A_COUNT, EXACT_RESPONSE, Channel, Epsilons, Line, Reached, register
from sfumato.channels.guidance import Link
from sfumato.channels.guidance.bits import check_floor, check_link, floored
from sfumato.core.array_types import Codes, Matrix
from sfumato.noise import as_share, keep_threshold, randomized_response, response_epsilon, uniform_integers
from sfumato.table import Group

WORD = 1 << 64


@register
@dataclass(frozen=True)
class RandomizedResponse(Channel):
    """Keep one of `categories` with probability `keep`, else report one of the others, each as likely.

    `keep` is a double that is exactly T / 2^64 of the integer T which the program compares random words with. So the
    epsilon computed from a card is that of the program, to the last digit.
    """

    keep: float
    categories: Annotated[int, A_COUNT]
    tag = "randomized-response"

    def __post_init__(self) -> None:
        if self.categories < 1 or not 0 < self.keep <= 1:
            raise ValueError("keep")

    @classmethod
    def of_epsilon(cls, epsilon: float, categories: int) -> Self:
        """The largest probability whose epsilon is at most the one wanted, and which a double holds exactly."""
        if categories < 2:
            return cls(1.0, categories)
        return cls(as_share(keep_threshold(epsilon, categories)), categories)

    @property
    def threshold(self) -> int:
        return int(self.keep * WORD)

    @property
    def other(self) -> float:
        """Probability of each wrong category."""
        return (1.0 - self.keep) / max(self.categories - 1, 1)

    @property
    def epsilon(self) -> float:
        return 0.0 if self.categories < 2 else response_epsilon(self.threshold, self.categories)

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0  # answers are compared as they are

    @property
    def kept(self) -> float:
        return self.keep

    @property
    def width(self) -> int:
        return self.categories

    @property
    def numbers(self) -> int:
        return 0

    @property
    def path(self) -> str:
        return EXACT_RESPONSE

    @property
    def is_exact(self) -> bool:
        return self.keep == 1.0

    def fits(self, groups: Sequence[Group]) -> bool:
        return len(groups) == 1 and groups[0].is_onehot

    def draw_codes(self, codes: Codes, rng: np.random.Generator) -> Codes:
        """Category codes instead of one-hot slots."""
        return codes if self.categories < 2 else randomized_response(rng, codes, self.categories, self.threshold)

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        codes = self.draw_codes(x.argmax(axis=1), rng)
        out = np.zeros((len(x), self.categories))
        out[np.arange(len(x)), codes] = 1.0
        return out

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        """Somebody whose category is none of these has equal slots, and is as far from all of them."""
        same = np.eye(self.categories)[z.argmax(axis=1)] @ x.T
        if self.other == 0:
            return np.where(same > 0.5, 0.0, -np.inf)
        other = math.log(self.other)
        return np.asarray(other + (math.log(self.keep) - other) * same)

    def draw_anything(self, rows: int, rng: np.random.Generator) -> Matrix:
        return np.asarray(np.eye(self.categories)[uniform_integers(rng, self.categories, rows)])

    def log_anything(self, z: Matrix) -> Matrix:
        return np.full(len(z), -math.log(self.categories))

    @property
    def anything(self) -> float:
        """1/k lies between the two probabilities that make up 1."""
        return self.epsilon

    def line(self, values: Matrix) -> Line:
        """P(slot = 1 | x) = q + g x. The covariance of the report given x, averaged over slots of mean mu, is
        diag(q + g mu) - (q q' + q g (1 mu' + mu 1') + g^2 diag(mu))."""
        gain, floor, mu = self.keep - self.other, self.other, values.mean(axis=0)
        k = self.categories
        if k < 2:
            return Line(np.eye(k), np.zeros(k), np.zeros((k, k)))
        spread = np.diag(floor + gain * mu)
        spread -= floor**2 + floor * gain * np.add.outer(mu, mu) + gain**2 * np.diag(mu)
        return Line(gain * np.eye(k), np.full(k, floor), spread)

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        return (z, z) if self.is_exact else (np.zeros(z.shape), np.ones(z.shape))

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002
        return Reached(0.0, 1.0)

    @property
    def least_share(self) -> float:
        return min(self.keep, self.other) if self.categories > 1 else 0.0

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:  # noqa: ARG002
        return Epsilons(self.epsilon, self.epsilon, self.epsilon)


# One bit of a guided survey: how likely it is to be 1, given the projected answers [guided-survey, Eq. 8].


@register
@dataclass(frozen=True)
class Bit(Channel):
    """P(1 | x) = floor + (1 - 2 floor) p(x), p(x) = min(x^2, 1) as published ("square") or (1 + x) / 2 ("linear").

    x is one entry of t V V', which the `Guided` map makes of the answers t. What a floor proves depends on all bits
    together, so the map says it.
    """

    floor: float
    link: Link
    tag = "bit"

    def __post_init__(self) -> None:
        check_floor(self.floor)
        check_link(self.link)

    @property
    def numbers(self) -> int:
        return 0

    @property
    def path(self) -> str:
        return EXACT_RESPONSE

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        # numpy's doubles are 53 random bits times 2^-53, as a respondent's are
        return np.asarray(rng.random(x.shape) < floored(x, self.floor, self.link)).astype(np.float64)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        q = floored(x[None, :, 0], self.floor, self.link)
        with np.errstate(divide="ignore"):
            return np.where(z[:, 0, None] > 0.5, np.log(q), np.log1p(-q))

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002
        return Reached(0.0, 1.0)
