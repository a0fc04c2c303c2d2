"""A whole vector released at once: PrivUnitG, whose density is high in a cap about the truth and low elsewhere."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self, cast

import numpy as np
import scipy  # its parts are loaded when one is first used

from sfumato.channels.base import A_COUNT, EXACT_CAP, FLOAT_NOISE, Channel, Epsilons, Line, Reached
from sfumato.channels.maps import NOTHING, Map, places
from sfumato.channels.sampled import choose, draw_chosen, rates_fit, tells
from sfumato.core.accepted import Listed, Positive, Whole
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.records import BRIEF
from sfumato.noise import response
from sfumato.noise.grid import WORD, random_words
from sfumato.noise.streams import keyed_generator
from sfumato.table import Encoding, Group

_PLACES, _FARTHEST = 4000, 10.0
"""Where a law is averaged over one coordinate."""
LEAST, MOST = 1e-3, 40.0
"""Epsilons between which a cap can be made."""


@dataclass(frozen=True)
class UnitVector(Channel):
    """z = x radius / M, where x is a normal vector in the cap of v more often than by chance: E(z | v) = radius v.

    v is a unit vector of `dimension` coordinates, `near` the probability of its cap and `tail` where that begins, in
    standard deviations. With `bits` x lies on a grid of 2^-bits, and `near` is exactly T / 2^64: see `noise.cap`.
    """

    dimension: Annotated[int, A_COUNT]
    near: float
    tail: float
    radius: float
    bits: Annotated[int, BRIEF] = 0
    tag = "unit-vector"

    def __post_init__(self) -> None:
        if not 0 < self.near < 1 or not abs(self.tail) <= 8 or self.dimension < 2 or not 0 < self.radius < math.inf:
            raise ValueError("near")
        if self.bits and not 10 <= self.bits <= response.BITS:
            raise ValueError("bits")
        if not response.mean_length(self.near, self.tail) > 0:
            raise ValueError("near")

    @classmethod
    def of_epsilon(cls, epsilon: float, dimension: int, radius: float = 1.0, *, exact: bool = True) -> Self:
        """The cap for which z varies least; epsilon is never exceeded."""
        if not LEAST <= epsilon <= MOST:
            raise UsageError(
                f"The epsilon of a vector must lie between {LEAST:g} and {MOST:g}. Got {epsilon:.6g} instead."
            )
        tail, bits = response.best_tail(epsilon, dimension), response.BITS if exact else 0
        near = response.best_near(epsilon * (1 - 1e-12) - 1e-12, response.cap_masses(tail, dimension, bits)[0])
        return cls(dimension, response.as_share(int(near * WORD)), tail, radius, bits)

    @property
    def scale(self) -> float:
        """What one standard deviation of x becomes."""
        return self.radius / response.mean_length(self.near, self.tail)

    @property
    def width(self) -> int:
        return self.dimension

    numbers = width

    @property
    def path(self) -> str:
        return EXACT_CAP if self.bits else FLOAT_NOISE

    @property
    def step(self) -> float:
        return self.scale / 2.0**self.bits if self.bits else 0.0

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        if not self.bits:
            return np.asarray(response.draw_caps_in_floats(rng, x, self.near, self.tail) * self.scale)
        drawn = response.draw_caps(rng, x, int(self.near * WORD), self.tail, self.bits)
        return np.asarray(drawn * (self.scale / 2.0**self.bits), dtype=np.float64)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        mass = float(scipy.special.ndtr(-self.tail))
        high, low = math.log(self.near / mass), math.log((1.0 - self.near) / (1.0 - mass))
        base = -0.5 * (z**2).sum(axis=1) / self.scale**2
        base -= self.dimension * math.log(self.scale * math.sqrt(2.0 * math.pi))
        if self.bits:
            g = np.rint(z * (2.0**self.bits / self.scale))  # integers below 2^53 are exact in doubles, and so are
            s, tau = response.directions(x, self.tail, self.bits)  # their products as long as they stay below
            near = g @ s.T.astype(np.float64) >= tau
        else:
            near = z @ x.T >= self.tail * self.scale
        return np.asarray(base[:, None] + np.where(near, high, low))

    def truths(self, low: float, high: float, steps: int = 0) -> Matrix:  # noqa: ARG002
        return np.eye(1, self.dimension)  # of lengths, all directions are alike

    def sorted_by(self, z: Matrix) -> Floats:
        """The squared length, in standard deviations: one coordinate from the cap or not, the others normal."""
        return np.asarray((z**2).sum(axis=1) / self.scale**2)

    def below(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:
        """Of squared lengths; with a share of the noise, vectors are so much closer to their mean."""
        u = (np.arange(_PLACES) + 0.5) / _PLACES * 2 * _FARTHEST - _FARTHEST
        mass = float(scipy.special.ndtr(-self.tail))
        density = np.exp(-0.5 * u**2) * np.where(u >= self.tail, self.near / mass, (1 - self.near) / (1 - mass))
        along = share * u + (1.0 - share) * response.mean_length(self.near, self.tail)
        rest = np.maximum(edges[:, None] - along**2, 0.0) / share**2
        found = scipy.special.chdtr(self.dimension - 1, rest) @ (density / density.sum())
        return np.repeat(found[:, None], len(x), axis=1)

    def mean_line(self) -> tuple[float, float]:
        return self.radius, 0.0

    def line(self, values: Matrix) -> Line:
        """E(x x' | v) = I + t M v v'."""
        length, w = response.mean_length(self.near, self.tail), self.dimension
        both = values.T @ values / max(1, len(values))
        spread = self.scale**2 * np.eye(w) + (self.scale**2 * self.tail * length - self.radius**2) * both
        return Line(self.radius * np.eye(w), np.zeros(w), spread)

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002 (directions have no ends)
        """A coordinate's density is at most p / Q times the normal one."""
        most = max(self.near / float(scipy.special.ndtr(-self.tail)), 1.0)
        reach = float(-scipy.special.ndtri(max(0.25 * chance / most, 1e-300))) * self.scale
        return Reached(-reach, reach)

    @property
    def epsilon(self) -> float:
        return response.cap_epsilon(self.near, self.tail, self.dimension, self.bits)


CELLS = 32
"""Of a number's range."""
ABOVE_0 = Positive(math.inf)
WITHIN = 0.125
"""Ranks within one cell differ by no more than this."""
INSIDE = 4
LEAST_SPREAD = 1e-3
"""A polynomial that varies less than this over all people is left out (it is 0 for everybody)."""


def cells_of(group: Group) -> int:
    """Into how many cells the range of a number is cut; those of one value each where it takes few."""
    return min(CELLS, group.levels or CELLS)


def values_in(cells: int) -> Matrix:
    """Values between 0 and 1 that stand for the cells: `INSIDE` of each, or the one that it holds."""
    if cells < CELLS:
        return np.arange(cells) / max(cells - 1, 1)
    return (np.arange(cells * INSIDE) + 0.5) / (cells * INSIDE)


@dataclass(frozen=True, eq=False)
class Marginals:
    """For every column its shares: of even cells of a number's range, of its few values, or of categories."""

    shares: tuple[Matrix, ...]

    @classmethod
    def flat(cls, groups: Sequence[Group]) -> Marginals:
        """As if every value were as likely: what is known before anything was released."""
        sizes = [len(group.column.categories or ()) if group.is_onehot else cells_of(group) for group in groups]
        return cls(tuple(np.full(size, 1.0 / size) for size in sizes))

    def rank(self, column: int, x: Matrix) -> Matrix:
        """About the share of people below x, and half of those at x.

        Where a cell holds many, it is not known whether they are spread over it or all at one place, often its edge
        (zeros, answers of 0 or 1). So ranks within a cell lie about its middle, at most `WITHIN` / 2 away.
        """
        share = self.shares[column] / self.shares[column].sum()
        middle = np.cumsum(share) - share / 2.0
        if len(share) < CELLS:  # one value each
            return np.asarray(middle[np.rint(np.clip(x, 0.0, 1.0) * (len(share) - 1)).astype(np.int64)])
        place = np.clip(x, 0.0, 1.0) * len(share)
        cell = np.minimum(place.astype(np.int64), len(share) - 1)
        span = np.minimum(share, WITHIN)
        return np.asarray(middle[cell] + span[cell] * (place - cell - 0.5))

    def ranks(self, groups: Sequence[Group], X: Matrix) -> Matrix:
        """The columns of `groups` side by side, numbers by their ranks, categories and "missing" as they are."""
        parts = []
        for column, group in enumerate(groups):
            part = np.array(X[:, group.slice], dtype=np.float64)
            if not group.is_onehot:
                part[:, 0] = self.rank(column, part[:, 0])
            parts.append(part)
        return np.hstack(parts)

    def features(self, groups: Sequence[Group], X: Matrix) -> Matrix:
        """Two orthonormal polynomials of a number's rank, contrasts of a category; 0 for what is missing.

        Each has mean 0 and variance 1 where people are spread as these shares say, and those of one column are
        uncorrelated.
        """
        parts = []
        for column, group in enumerate(groups):
            cells = X[:, group.slice]
            if group.is_onehot:  # categories x (categories - 1): with the constant orthonormal under the shares
                root = np.sqrt(np.maximum(self.shares[column], 1e-3))
                root /= np.linalg.norm(root)
                basis, _ = np.linalg.qr(np.column_stack([root, np.eye(len(root))[:, 1:]]))
                found = cells[:, : len(root)] @ (basis[:, 1:] / root[:, None])
            else:
                u = self.rank(column, cells[:, 0])
                found = np.column_stack([np.ones(len(u)), u, u**2]) @ self._polynomials[column]
            parts.append(np.where(cells[:, -1:] > 0.5, 0.0, found) if group.column.missing else found)
        return np.hstack(parts)

    @cached_property
    def _polynomials(self) -> tuple[Matrix, ...]:
        """For every number, coefficients (1, rank, rank^2) of two functions that are orthonormal under its shares."""
        made = []
        for column, shares in enumerate(self.shares):
            share, values = shares / shares.sum(), values_in(len(shares))
            u = self.rank(column, values)
            weight = np.repeat(share, len(values) // len(share)) / (len(values) // len(share))
            powers, found = np.column_stack([np.ones(len(u)), u, u**2]), np.eye(3)
            for k in range(3):
                for _ in range(2):  # twice is enough
                    for j in range(k):
                        found[:, k] -= (weight @ ((powers @ found[:, j]) * (powers @ found[:, k]))) * found[:, j]
                norm = math.sqrt(float(weight @ (powers @ found[:, k]) ** 2))
                found[:, k] = found[:, k] / norm if norm > LEAST_SPREAD else 0.0
            made.append(found[:, 1 : len(share)])
        return tuple(made)

    def count(self, groups: Sequence[Group]) -> int:
        """How many features there are."""
        return sum(self.sizes(groups))

    def sizes(self, groups: Sequence[Group]) -> list[int]:
        """Features of every column: contrasts of a category, two polynomials of a number, one of two values."""
        most = [len(share) - 1 for share in self.shares]
        return [size if group.is_onehot else min(size, 2) for size, group in zip(most, groups, strict=True)]

    def of_features(self, groups: Sequence[Group], by_column: Sequence[float]) -> Floats:
        """Every feature's figure, of figures of columns."""
        return np.repeat(np.asarray(by_column, dtype=np.float64), self.sizes(groups))

    def is_like(self, other: Marginals) -> bool:
        """Whether both make the same features."""
        if len(self.shares) != len(other.shares):
            return False
        pairs = zip(self.shares, other.shares, strict=True)
        return all(one.shape == two.shape and np.allclose(one, two, atol=1e-9) for one, two in pairs)

    def to_list(self) -> list[list[float]]:
        """As it stands on a card."""
        return [share.tolist() for share in self.shares]

    @classmethod
    def from_list(cls, found: Any, groups: Sequence[Group]) -> Marginals:
        """The inverse; refuses with a ValueError what are no shares of these columns."""
        made = cls(tuple(np.array(one) for one in Listed(Listed(ABOVE_0)).read(found)))
        if [share.shape for share in made.shares] != [share.shape for share in cls.flat(groups).shares]:
            raise ValueError("shares")
        return made


# A release in stages: every row goes one of three ways, and later ways are guided by what earlier rows released.
#
# The matrix has three parts, side by side: numbers and categories as they are, the same by ranks, and a vector of
# polynomials of ranks. A row fills one part and leaves the others out. Which one, says a keyed function of the row's
# number. What a part is given depends on the `guides`, which were made of released rows of earlier parts: changing one
# record changes one factor of the density of all that is released, so every record has the epsilon of its own part,
# whatever the guides say ("sequentially interactive, each record once").
def lifted(f: Matrix, radius: float) -> Matrix:
    """Vectors clipped to the ball of this radius, as unit vectors with one coordinate more."""
    length = np.sqrt((f**2).sum(axis=1, keepdims=True))
    inside = f / np.maximum(length, radius)
    rest = np.sqrt(np.maximum(0.0, 1.0 - (inside**2).sum(axis=1, keepdims=True)))
    return np.hstack([inside, rest])


STAGES = 3
WAVE, RANKS, VECTORS = range(STAGES)


@dataclass(frozen=True, eq=False)
class Staged(Map):
    """`groups`: the columns that tell something. `ranks` and `polynomials`: how they are spread, by the releases of the
    first stage and of the first two. `reports`: how many columns a row of the first two stages reports, at the rates of
    their channels; `radius`: to which vectors are clipped; `shares` of the rows in each stage. `stretch`: by how much a
    column's features are multiplied before they are clipped, where columns have weights; else empty."""

    groups: tuple[Group, ...]
    ranks: Marginals
    polynomials: Marginals
    reports: int
    radius: float
    shares: tuple[float, float, float]
    stretch: tuple[float, ...] = ()
    kind = "staged"

    @cached_property
    def parts(self) -> tuple[slice, slice, slice]:
        """Columns of the matrix that each stage fills."""
        own = sum(group.width for group in self.groups)
        vector = self.polynomials.count(self.groups) + 1
        return slice(0, own), slice(own, 2 * own), slice(2 * own, 2 * own + vector)

    def apply(self, X: Matrix) -> Matrix:
        return np.hstack([self._plain(X), self.ranks.ranks(self.groups, X), self._vectors(X)])

    def _plain(self, X: Matrix) -> Matrix:
        return np.hstack([X[:, group.slice] for group in self.groups])

    def _vectors(self, X: Matrix) -> Matrix:
        return lifted(self.polynomials.features(self.groups, X) * self.stretches, self.radius)

    @cached_property
    def stretches(self) -> Floats:
        """By how much each feature is multiplied."""
        return self.polynomials.of_features(self.groups, self.stretch or (1.0,) * len(self.groups))

    def is_like(self, other: Staged) -> bool:
        """Whether vectors mean the same."""
        return self.polynomials.is_like(other.polynomials) and bool(np.allclose(self.stretches, other.stretches))

    def ranges(self, encoding: Encoding, chance: float) -> tuple[Matrix, Matrix]:  # noqa: ARG002
        width = self.parts[VECTORS].stop
        low = np.zeros(width)
        low[self.parts[VECTORS]] = -1.0
        return low, np.ones(width)

    # Which way a row goes

    def stages(self, rows: int, rng: np.random.Generator) -> Codes:
        """Of rows in their order; nothing is read of them."""
        return np.searchsorted(np.cumsum(self.shares)[:-1], rng.random(rows), side="right").astype(np.int64)

    def perturb(self, channels: Sequence[Channel], X: Matrix, rng: np.random.Generator) -> Matrix:
        return self.release(channels, X, self.stages(len(X), rng), rng)

    def release(
        self, channels: Sequence[Channel], X: Matrix, stages: Codes, rng: np.random.Generator, only: int | None = None
    ) -> Matrix:
        """Released rows; with `only`, those of one stage, which are drawn as they are together with the others."""
        out = np.full((len(X), self.parts[VECTORS].stop), np.nan)
        for stage, some in enumerate(self.of_stages(channels)):
            own = keyed_generator(random_words(rng, 2).tobytes())
            rows = np.flatnonzero(stages == stage)
            if only not in (None, stage) or not len(rows):
                continue
            if stage == VECTORS:
                out[rows, self.parts[stage]] = _inner(some[0]).draw(self._vectors(X[rows]), own)
                continue
            given = self._plain(X[rows]) if stage == WAVE else self.ranks.ranks(self.groups, X[rows])
            rates = [one.reported / self.shares[stage] for one in some]
            chosen = choose(len(rows), rates, self.reports, own)
            out[rows, self.parts[stage]] = draw_chosen(some, given, chosen, own)
        return out

    def of_stages(self, channels: Sequence[Channel]) -> tuple[Sequence[Channel], ...]:
        """The channels of every stage."""
        count = len(self.groups)
        return channels[:count], channels[count : 2 * count], channels[2 * count :]

    # What it proves

    def epsilons(self, channels: Sequence[Channel], encoding: Encoding) -> Epsilons:  # noqa: ARG002
        waves, ranked, vectors = self.of_stages(channels)
        if not self._fits(channels):
            return NOTHING
        column = record = cast(UnitVector, _inner(vectors[0])).epsilon
        for some in (waves, ranked):
            told = [one.epsilons([group]).record for one, group in zip(some, self.groups, strict=True)]
            column = max(column, *told)
            record = max(record, math.fsum(heapq.nlargest(self.reports, told)))
        return Epsilons(column, column, record, exact=False)

    def _fits(self, channels: Sequence[Channel]) -> bool:
        """Whether these are channels for these columns; each row is taken to report as many as it should."""
        waves, ranked, vectors = self.of_stages(channels)
        if len(ranked) != len(self.groups) or len(vectors) != 1 or not isinstance(_inner(vectors[0]), UnitVector):
            return False
        fitting = all(
            one.leaves_out and one.fits([group]) and one.width == group.width
            for some in (waves, ranked)
            for one, group in zip(some, self.groups, strict=True)
        )
        rates = all(
            rates_fit([min(1.0, one.reported / share) for one in some], self.reports)
            for some, share in ((waves, self.shares[WAVE]), (ranked, self.shares[RANKS]))
        )
        widths = places(channels)[-1].stop == self.parts[VECTORS].stop
        return fitting and rates and widths and vectors[0].leaves_out and 1 <= self.reports <= len(self.groups)

    def check_rows(self, channels: Sequence[Channel], Z: Matrix) -> None:
        """Every row reports one stage, and in it as many columns as it should."""
        first = np.array([place.start for place in places(channels)])
        told = ~np.isnan(Z[:, first])
        count = len(self.groups)
        counts = np.column_stack([some.sum(axis=1) for some in np.split(told, [count, 2 * count], axis=1)])
        wanted = np.diag([self.reports, self.reports, 1])
        right = (counts[:, None, :] == wanted[None]).all(axis=2).any(axis=1)
        if not right.all():
            raise TableError(
                f"Row {int(right.argmin()) + 1} of the release does not report exactly one stage as its card says: the "
                "release was changed or damaged. Take it again from who made it."
            )

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "shares": list(self.shares),
            "reports": self.reports,
            "radius": self.radius,
            **({"stretch": list(self.stretch)} if self.stretch else {}),
            "ranks": self.ranks.to_list(),
            "polynomials": self.polynomials.to_list(),
        }

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any], encoding: Encoding, channels: Sequence[Channel]) -> Staged:
        """The inverse of `to_dict`."""
        wrong = CardError("The card's stages do not fit its columns: it was edited or is damaged.")
        groups = tuple(group for group in encoding.groups if tells(group))
        try:
            reports = Whole(1, len(groups)).read(stated["reports"])
            radius = ABOVE_0.read(stated["radius"])
            shares = Listed(ABOVE_0, least=STAGES, most=STAGES).read(stated["shares"])
            stretch = Listed(ABOVE_0).read(stated.get("stretch", ()))
            ranks, polynomials = (Marginals.from_list(stated[name], groups) for name in ("ranks", "polynomials"))
        except ValueError:
            raise wrong from None
        made = cls(groups, ranks, polynomials, reports, radius, shares, stretch)
        if abs(math.fsum(shares) - 1.0) > 1e-9 or len(stretch) not in (0, len(groups)) or not made._fits(channels):
            raise wrong
        return made


def _inner(channel: Channel) -> Channel:
    return getattr(channel, "inner", channel)
