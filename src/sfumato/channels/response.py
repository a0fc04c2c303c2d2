"""Randomized response: a category is reported truly with a known probability, else another one [Warner 1965]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np

from sfumato.channels.base import A_COUNT, EXACT_RESPONSE, TRUTHS, Around, Channel, Epsilons, Line, passes_on
from sfumato.channels.guidance.space import Link, check_law, floored
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.records import BRIEF, Key
from sfumato.noise.grid import WORD, uniform_integers
from sfumato.noise.response import as_share, keep_threshold, randomized_response, response_epsilon
from sfumato.table import Group


@dataclass(frozen=True)
class RandomizedResponse(Channel):
    """Keep one of `categories` with probability `keep`, else report one of the others, each as likely.

    `keep` is a double that is exactly T / 2^64 of the integer T which the program compares random words with. So the
    epsilon computed from a card is that of the program, to the last digit.
    """

    keep: float
    categories: Annotated[int, A_COUNT]
    tag = "randomized-response"
    numbers = 0
    path = EXACT_RESPONSE

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

    anything = epsilon  # 1/k lies between the two probabilities that make up 1

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0  # answers are compared as they are

    @property
    def kept(self) -> float:
        return self.keep

    @property
    def width(self) -> int:
        return self.categories

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
        """A person whose category is none of these has equal slots, and is as far from all of them."""
        same = np.eye(self.categories)[z.argmax(axis=1)] @ x.T
        if self.other == 0:
            return np.where(same > 0.5, 0.0, -np.inf)
        other = math.log(self.other)
        return np.asarray(other + (math.log(self.keep) - other) * same)

    def truths(self, low: float, high: float, steps: int = 0) -> Matrix:  # noqa: ARG002
        return np.eye(self.categories)

    def shown(self, z: Matrix, edges: Floats) -> Codes:  # noqa: ARG002
        return np.asarray(z.argmax(axis=1), dtype=np.int64)

    def chances(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:  # noqa: ARG002
        kept = 1.0 - share * (1.0 - self.keep)
        other = (1.0 - kept) / max(self.categories - 1, 1)
        return np.asarray(other + (kept - other) * x.T)

    def draw_anything(self, rows: int, rng: np.random.Generator) -> Matrix:
        return np.asarray(np.eye(self.categories)[uniform_integers(rng, self.categories, rows)])

    def log_anything(self, z: Matrix) -> Matrix:
        return np.full(len(z), -math.log(self.categories))

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

    @property
    def least_share(self) -> float:
        return min(self.keep, self.other) if self.categories > 1 else 0.0

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:  # noqa: ARG002
        return Epsilons(self.epsilon, self.epsilon, self.epsilon)


# One bit of a guided survey: how likely it is to be 1, given the projected answers [guided-survey, Eq. 8].
@dataclass(frozen=True)
class Bit(Channel):
    """P(1 | x) = floor + (1 - 2 floor) p(x), p(x) = min(x^2, 1) as published ("square") or (1 + x) / 2 ("linear").

    x is one entry of t V V', which the `Guided` map makes of the answers t. What a floor proves depends on all bits
    together, so the map says it.
    """

    floor: float
    link: Link
    tag = "bit"
    numbers = 0
    path = EXACT_RESPONSE

    def __post_init__(self) -> None:
        check_law(self.floor, self.link)

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        # numpy's doubles are 53 random bits times 2^-53, as a respondent's are
        return np.asarray(rng.random(x.shape) < floored(x, self.floor, self.link)).astype(np.float64)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        q = floored(x[None, :, 0], self.floor, self.link)
        with np.errstate(divide="ignore"):
            return np.where(z[:, 0, None] > 0.5, np.log(q), np.log1p(-q))

    def truths(self, low: float, high: float, steps: int = 0) -> Matrix:  # noqa: ARG002
        return np.array([[-1.0], [0.0], [1.0]])  # of either link the least and the greatest chance

    def shown(self, z: Matrix, edges: Floats) -> Codes:  # noqa: ARG002
        return np.asarray(z[:, 0] > 0.5, dtype=np.int64)

    def chances(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:  # noqa: ARG002
        one = floored(x[:, 0], share * self.floor, self.link)
        return np.array([1.0 - one, one])


class BesideMissing(Around):
    """Columns of an `inner` channel, and an indicator of "missing"."""

    def truths(self, low: float, high: float, steps: int = TRUTHS - 1) -> Matrix:
        """The inner truths with an indicator that is 0, and one that is missing, which stands at the middle."""
        present = self.inner.truths(low, high, steps)
        missing = np.append(np.full(present.shape[1], 0.5), 1.0)
        return np.vstack([np.column_stack([present, np.zeros(len(present))]), missing])


@dataclass(frozen=True)
class HidesMissing(BesideMissing):
    """(columns of `inner`, indicator): a present cell goes through `inner`; a missing one shows any outcome of it, each
    as likely. Nothing is ever *reported* missing, so an empty released cell can mean "not reported" and nothing else.

    With two levels of probability the uniform law lies between them, so "missing" is one more input value within the
    same epsilon.
    """

    tag = "hides-missing"
    hides_missing = True
    adds = False

    def __post_init__(self) -> None:
        if self.inner.leaves_out or self.inner.hides_missing:
            raise ValueError("inner")

    def fits(self, groups: Sequence[Group]) -> bool:
        return len(groups) == 1 and groups[0].column.missing and groups[0].width == self.width

    def blurred(self, width: float) -> Channel:  # noqa: ARG002 (what is shown for "missing" would stand out)
        return self

    @property
    def width(self) -> int:
        return self.inner.width + 1

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        missing = x[:, -1] > 0.5
        shown = self.inner.draw(np.array(x[:, :-1]), rng)
        anything = self.inner.draw_anything(len(x), rng)  # for everybody: the time does not tell who is missing
        return np.column_stack([np.where(missing[:, None], anything, shown), np.zeros(len(x))])

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        found = self.inner.log_likelihood(z[:, :-1], x[:, :-1])
        found[:, x[:, -1] > 0.5] = self.inner.log_anything(z[:, :-1])[:, None]
        return found

    def line(self, values: Matrix) -> Line:
        """The indicator is always 0. A number that is missing lies at the middle of the range, as any value does on
        average; a category that is missing adds the same to every slot."""
        if self.numbers:
            missing = values[:, -1] > 0.5 if len(values) > 1 else np.zeros(len(values), dtype=bool)
            share, (low, high, _) = float(values[:, -1].mean()), self.inner.reach(0.0, 1.0, 0.0)
            one = self.inner.line(values[~missing, :-1] if (~missing).any() else values[:, :-1])
            spread = (1.0 - share) * one.covariance[0, 0] + share * (high - low) ** 2 / 12.0
            spread = 0.0 if self.inner.is_exact else spread  # a constant
            return Line(np.diag([one.gain[0, 0], 0.0]), np.array([one.offset[0], 0.0]), np.diag([spread, 0.0]))
        # P = c + G x exactly, where x is a unit vector, so that E(x x') = diag(mu).
        k, mu = self.inner.width, values.mean(axis=0)
        told = np.exp(self.inner.log_likelihood(np.eye(k), np.eye(k)))
        floor = float(told[0, 1]) if k > 1 else 0.0
        gain, offset = np.zeros((k + 1, k + 1)), np.append(np.full(k, floor), 0.0)
        gain[:k, :k] = told - floor
        gain[:k, k] = 1.0 / k - floor
        both = np.outer(offset, gain @ mu)
        second = np.outer(offset, offset) + both + both.T + gain @ np.diag(mu) @ gain.T
        return Line(gain, offset, np.diag(offset + gain @ mu) - second)

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        return np.zeros(z.shape), np.ones(z.shape)  # it may always have been missing

    def chances(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:
        found = self.inner.chances(edges, x[:, :-1], share)
        anything = np.full(len(found), 1.0 / len(found))
        if self.inner.numbers:
            anything = np.diff(self._even(edges), prepend=0.0, append=1.0)
        found[:, x[:, -1] > 0.5] = anything[:, None]
        return found

    def _even(self, edges: Floats) -> Floats:
        """The share of the range below each edge."""
        low, high, _ = self.inner.reach(0.0, 1.0, 0.0)
        return np.clip((edges - low) / (high - low), 0.0, 1.0)

    @property
    def least_share(self) -> float:
        """None: the slot for "missing" is never reported."""
        return 0.0

    def transition(self, edges: Floats, x: Matrix) -> Matrix:
        found = self.inner.transition(edges, x[:, :-1])
        found[:, x[:, -1] > 0.5] = np.diff(self._even(edges))[:, None]
        return found

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        """That of the values, or of a value and the uniform law, whichever is larger; 0 where all show the same."""
        (group,) = groups
        if group.is_constant or (group.is_onehot and self.inner.width == 1):
            return Epsilons(0.0, 0.0, 0.0)
        told = self.inner.anything if group.is_onehot else max(self.inner.moved(1.0), self.inner.anything)
        return Epsilons(told, told, told)


@passes_on("leaves_out", "reported")
@dataclass(frozen=True)
class OrMissing(BesideMissing):
    """(value, indicator): the value by its own channel, the indicator kept with probability `keep`.

    A missing value stands at the middle of its range and goes through the channel like any other; with `anywhere` it
    shows a number from all over the range instead. A cell that is *reported* missing is empty: its number was drawn
    and is not shown.
    """

    inner: Annotated[Channel, Key("value")]
    keep: float
    anywhere: Annotated[bool, BRIEF] = False
    tag = "or-missing"
    width = 2

    def __post_init__(self) -> None:
        if self.inner.width != 1 or not 0 < self.keep <= 1:
            raise ValueError("value")

    def fits(self, groups: Sequence[Group]) -> bool:
        return len(groups) == 1 and groups[0].has_indicator

    @property
    def response(self) -> RandomizedResponse:
        return RandomizedResponse(self.keep, 2)

    @property
    def kept(self) -> float:
        return self.keep

    @property
    def path(self) -> str:
        return EXACT_RESPONSE if self.inner.is_exact else self.inner.path

    @property
    def is_exact(self) -> bool:
        return self.inner.is_exact and self.keep == 1.0

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        was_missing = x[:, 1] > 0.5
        missing = self.response.draw_codes(was_missing.astype(np.int64), rng)
        value = self.inner.draw(np.array(x[:, :1]), rng)[:, 0]
        if self.anywhere:
            value = np.where(was_missing, rng.random(len(x)), value)
        return np.column_stack([np.where(missing == 1, 0.5, value), missing.astype(np.float64)])

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        """A cell that is reported missing tells nothing of the number."""
        empty = z[:, 1] > 0.5
        told = self.response.log_likelihood(_slots(z[:, 1]), _slots(x[:, 1]))
        shown = self.inner.log_likelihood(z[~empty, :1], x[:, :1])
        if self.anywhere:
            inside = (z[~empty, :1] >= 0) & (z[~empty, :1] <= 1)
            shown[:, x[:, 1] > 0.5] = np.where(inside, 0.0, -np.inf)
        told[~empty] += shown
        return told

    def shown(self, z: Matrix, edges: Floats) -> Codes:
        """Missing first, then the cells of the number."""
        return np.where(z[:, 1] > 0.5, 0, 1 + self.inner.shown(z[:, :1], edges))

    def chances(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:
        missing = x[:, 1] > 0.5
        value = self.inner.chances(edges, x[:, :1], share)
        if self.anywhere:
            value[:, missing] = np.diff(np.clip(edges, 0.0, 1.0), prepend=0.0, append=1.0)[:, None]
        empty = self.response.chances(edges, _slots(x[:, 1]), share)[1]
        return np.vstack([empty, (1.0 - empty) * value])

    def line(self, values: Matrix) -> Line:
        """The number and the indicator are described apart, as if every number were there and shown."""
        value, share = self.inner.line(values[:, :1]), float(values[:, 1].mean())
        gain, floor = self.keep - self.response.other, self.response.other
        told = floor + gain * share
        spread = told - (floor**2 + 2 * floor * gain * share + gain**2 * share)
        offset, covariance = np.array([value.offset[0], floor]), np.diag([value.covariance[0, 0], spread])
        return Line(np.diag([value.gain[0, 0], gain]), offset, covariance)

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        low, high = self.inner.possible(z[:, :1])
        empty = z[:, 1] > 0.5
        low, high = np.where(empty, 0.0, low[:, 0]), np.where(empty, 1.0, high[:, 0])
        if self.keep == 1.0:
            return np.column_stack([low, z[:, 1]]), np.column_stack([high, z[:, 1]])
        # A value that is shown may stand in for a missing one, which lies at the middle.
        low, high, nobody = np.minimum(low, 0.5), np.maximum(high, 0.5), np.zeros(len(z))
        return np.column_stack([low, nobody]), np.column_stack([high, nobody + 1.0])

    def epsilons(self, groups: Sequence[Group]) -> Epsilons:
        """From one end of the range to the other, or from an end to the middle and from present to missing."""
        (group,) = groups
        across, half = (0.0, 0.0) if group.is_constant else (self.inner.moved(1.0), self.inner.moved(0.5))
        if self.anywhere and not group.is_constant:
            half = np.inf  # what lies in the range or beyond it can be told from a number with noise
        column = max(across, half + self.response.epsilon)
        return Epsilons(max(across, self.response.epsilon), column, column)


def _slots(indicator: Matrix) -> Matrix:
    """present, missing as one-hot slots."""
    return np.column_stack([indicator <= 0.5, indicator > 0.5]).astype(np.float64)
