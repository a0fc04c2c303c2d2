"""Channels without noise of their own: released as it is, or changed in a way that is not stated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple, Self

import numpy as np

from sfumato.channels.additive import Additive
from sfumato.channels.base import A_COUNT, FLOAT_NOISE, Channel, Epsilons, Factor, Line, NotApplicableError, Reached
from sfumato.core.accepted import Listed, Number, Positive
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import CardError, UsageError
from sfumato.core.records import APART, Key
from sfumato.noise import CUSTOM, Law, Normal, Operator, OperatorNoise, make_law, make_operator
from sfumato.noise.law import tail
from sfumato.noise.laws import A_LAW, SumLaw
from sfumato.table import Group


@dataclass(frozen=True)
class WholeColumns(Channel):
    """Any columns of the source, side by side; values stay about where they are."""

    columns: Annotated[int, A_COUNT] = 1

    @property
    def width(self) -> int:
        return self.columns

    def fits(self, groups: Sequence[Group]) -> bool:
        return bool(groups)

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0


@dataclass(frozen=True)
class Exact(WholeColumns):
    """What was true is released. It tells everything, except where there is only one possible value."""

    tag = "exact"
    is_exact = True
    kept = 1.0

    @property
    def numbers(self) -> int:
        return self.columns

    def raw_noise(self, width: float, low: float = 0.0) -> OperatorNoise | None:  # noqa: ARG002
        return None

    def draw_anything(self, rows: int, rng: np.random.Generator) -> Matrix:  # noqa: ARG002
        return np.full((rows, self.columns), 0.5)  # the only value of a constant

    def log_anything(self, z: Matrix) -> Matrix:
        return np.where((np.abs(z - 0.5) <= 1e-9).all(axis=1), 0.0, -np.inf)

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
    "the card states no noise of its cells: made-up rows have none and are counted as they are; for rows that were "
    "rounded and clipped, sanitize without --like-original"
)


@dataclass(frozen=True)
class Unstated(WholeColumns):
    """The cell was changed, and its law is not stated: rounded and clipped afterwards, or redrawn from a group.

    What is stated is that cells lie in [low, high].
    """

    low: float = 0.0
    high: float = 1.0
    tag = "unstated"
    is_stated = False

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError("low must not exceed high")

    @property
    def numbers(self) -> int:
        return min(self.columns, 1)

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:  # noqa: ARG002
        raise NotApplicableError("a channel whose law is not stated cannot be drawn from")

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002
        return Reached(self.low, self.high)

    def raw_noise(self, width: float, low: float = 0.0) -> OperatorNoise | None:  # noqa: ARG002
        raise NotApplicableError(NOT_STATED)

    @property
    def kept(self) -> float:
        raise NotApplicableError(NOT_STATED)


# Noise that an operator carries into a number, in the number's own units: z = Z(e, x) [density-reconstruction].
_VALUES, _NODES, _STEPS, _REACHED = 500, 1000, 2000, 1025
"""Values of the population and of the noise over which a line is averaged; steps of the range for an interval."""


@dataclass(frozen=True)
class Carried(Channel):
    """Encoded, u = (x - low) / width becomes (Z(e, x) - low) / width.

    Likelihood and hard interval are exact. A linear reader needs a line: the best one in the population. For
    multiplicative noise it is exact too: E(z | x) = m x is a line, and the rest, of variance Var(e) E(x^2), is
    uncorrelated with everything. An operator of the owner's own stands on a card as "custom" and nothing more; whoever
    was given it puts it back with `knowing`.
    """

    operator: str
    parameters: Mapping[str, float]
    law: Annotated[Law, A_LAW, Key("noise")]
    low: float
    range: Annotated[float, Positive(math.inf)]
    own: Annotated[Operator | None, APART] = field(default=None, compare=False)
    tag = "carried"
    path = FLOAT_NOISE

    def __post_init__(self) -> None:
        if self.operator != CUSTOM:
            make_operator(self.operator, self.parameters)  # refuses what does not exist

    @classmethod
    def of(cls, noise: OperatorNoise, low: float, width: float) -> Self:
        """From operator and law in raw units, for a column with this low end and range."""
        own = noise.operator if noise.operator.name == CUSTOM else None
        return cls(noise.operator.name, dict(noise.operator.parameters), noise.law, low, width, own)

    def knowing(self, operator: Operator) -> Self:
        if self.operator != operator.name:
            raise UsageError(f"The card says that the operator is {self.operator}, not {operator.name}.")
        return replace(self, own=operator)

    @property
    def noise(self) -> OperatorNoise:
        """Operator and law, in raw units."""
        if self.operator == CUSTOM and self.own is None:
            raise NotApplicableError(
                "it was made with the owner's own operator, which a card cannot describe; give it in Python"
            )
        return OperatorNoise(self.own or make_operator(self.operator, self.parameters), self.law)

    def mean_line(self) -> tuple[float, float]:
        """A factor of mean m takes low + u w to m (low + u w), so u to m u + (m - 1) low / w."""
        found = self.factor
        if found is None or found.mean == 0.0:
            who = "its owner's own operator" if self.operator == CUSTOM else f"the operator {self.operator}"
            raise NotApplicableError(f"released by {who}, so it is unknown where a plain value would lie")
        return found.mean, (1.0 - found.mean) * found.origin

    @property
    def factor(self) -> Factor | None:
        if self.operator != "multiplicative":
            return None
        return Factor(-self.low / self.range, self.noise.slope, self.law.variance, self.law.fourth_moment)

    def raw_noise(self, width: float, low: float = 0.0) -> OperatorNoise:  # noqa: ARG002 (it knows its own units)
        return self.noise

    @property
    def is_stated(self) -> bool:
        return self.operator != CUSTOM or self.own is not None

    def raw(self, u: Matrix) -> Matrix:
        return np.asarray(self.low + self.range * u)

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        z = self.noise.sample(self.raw(x), rng)
        if not np.isfinite(z).all():
            raise UsageError(
                "The operator produces values that are not finite. Choose another operator or other bounds."
            )
        return np.asarray((z - self.low) / self.range)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        with np.errstate(divide="ignore"):
            density = self.noise.pdf(self.raw(z[:, 0, None]), self.raw(x[None, :, 0]))
            return np.asarray(np.log(density * self.range))

    def below(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:
        z = x[:, 0] + (edges[:, None] - x[:, 0]) / share
        return np.asarray(self.noise.cdf(self.raw(z), self.raw(x[:, 0])))

    def line(self, values: Matrix) -> Line:
        u, noise = values[:, 0], self.noise
        if noise.operator.name == "multiplicative":
            mean, variance = noise.slope * self.raw(u), self.law.variance * self.raw(u) ** 2
        else:  # no closed form: by the midpoint rule over the noise
            u = np.quantile(u, (np.arange(_VALUES) + 0.5) / _VALUES) if len(u) > _VALUES else u
            e = self.law.ppf((np.arange(_NODES) + 0.5) / _NODES)
            z = noise.operator.forward(e[:, None], self.raw(u)[None, :])
            mean, variance = z.mean(axis=0), z.var(axis=0)
        mean, variance = (mean - self.low) / self.range, variance / self.range**2
        centre, spread = float(u.mean()), float(u.var())
        slope = float(np.mean((u - centre) * mean)) / spread if spread > 1e-12 else noise.slope
        left = float(variance.mean()) + float(mean.var()) - slope**2 * spread
        offset = float(mean.mean()) - slope * centre
        return Line(np.array([[slope]]), np.array([offset]), np.array([[max(left, 0.0)]]))

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        """To a 2000th of the range, on the safe side; all of it where no value can have become z."""
        u = np.linspace(0.0, 1.0, _STEPS + 1)
        low, high = self.noise.span(self.raw(u))
        seen = self.raw(z[:, :1])
        fits = (low <= seen) & (seen <= high)
        # A set that lies between two steps shows in neither: both ends of a step must be on different sides of z.
        crossed = ((low[:-1] > seen) & (high[1:] < seen)) | ((high[:-1] < seen) & (low[1:] > seen))
        fits[:, :-1] |= crossed
        fits = np.where(fits.any(axis=1, keepdims=True), fits, True)
        first, last = fits.argmax(axis=1), _STEPS - fits[:, ::-1].argmax(axis=1)
        least, most = np.maximum(u[first] - 1 / _STEPS, 0.0), np.minimum(u[last] + 1 / _STEPS, 1.0)
        return least[:, None], most[:, None]

    def reach(self, low: float, high: float, chance: float) -> Reached:
        """What noise makes of the values of [low, high]: looked at in steps, widened by the largest of them."""
        if self.operator == CUSTOM and self.own is None:  # only whoever made such an operator knows what it does
            return super().reach(low, high, chance)
        first, last, bounded = tail(self.law, chance)
        x, found, operator = self.raw(np.linspace(low, high, _REACHED)), [], self.noise.operator
        for branch in operator.branches:  # monotone in the noise between its ends
            for limit, end in ((branch.low, first), (branch.high, last)):
                e = np.full(len(x), end) if limit is None else np.clip(limit(x), first, last)
                found.append(operator.forward(e, x))
        z = np.array(found)
        step = float(np.abs(np.diff(z, axis=1)).max())
        ends = (float(z.min()) - step - self.low) / self.range, (float(z.max()) + step - self.low) / self.range
        return Reached(*ends, bounded)


# Noise that several columns share: z = x + B u, with u independent and B a matrix that the card states.
#
# Every column has a channel of its own, whose law is what the column shows by itself. So whoever reads one column at a
# time needs to know nothing more. Whoever reads several asks for them `apart`: in the coordinates B^-1 z the noise of
# different columns is independent again.
STEPS = 1 << 12
"""Cells on which the law of one column is computed: a 4000th of the distance between its ends."""
SINGULAR = 1e-9
"""A matrix whose least singular value is so small a share of its largest cannot be turned back."""


@dataclass(frozen=True)
class Mixed(Additive):
    """z_i = x_i + sum over j of B_ij u_j; `weights` is B_i, and all columns of a row share the u_j of law `source`."""

    law: Annotated[Law, APART] = field(init=False)
    grid: Annotated[float, APART] = field(default=0.0, init=False)
    low: Annotated[float, APART] = field(default=-math.inf, init=False)
    high: Annotated[float, APART] = field(default=math.inf, init=False)
    source: Annotated[Law, A_LAW, Key("noise")] = field()
    """The law of every u_j, which is symmetric."""
    weights: Annotated[tuple[float, ...], Listed(Number(), least=1, most=A_COUNT.most)] = field()
    tag = "mixed"

    def __post_init__(self) -> None:
        used, source = self.weights, self.source
        if not source.is_symmetric or source.mean != 0 or not any(used) or not np.isfinite(used).all():
            raise ValueError("weights")
        if source.name == "normal":
            law = make_law("normal", scale=math.sqrt(source.variance) * math.hypot(*used))
        else:
            terms = [source.scaled(abs(weight)) for weight in used if weight]
            law = terms[0] if len(terms) == 1 else SumLaw(tuple(terms), STEPS)
        object.__setattr__(self, "law", law)  # the only door into a frozen dataclass
        super().__post_init__()

    def below(self, edges: Floats, x: Matrix, share: float = 1.0) -> Matrix:
        if self.source.name != "normal":
            raise NotApplicableError("the law of sums is computed in steps, which is too rough to judge rows by")
        return super().below(edges, x, share)


class Apart(NamedTuple):
    """`columns` of the release that share noise, B, and the channels of B^-1 z in their place."""

    columns: Codes
    root: Matrix
    source: Law
    channels: tuple[Channel, ...]

    def white(self, Z: Matrix) -> Matrix:
        """Rows in the coordinates in which noise is independent; other columns stay as they are."""
        found = np.array(Z, dtype=np.float64)
        found[:, self.columns] = np.linalg.solve(self.root, found[:, self.columns].T).T
        return found

    def back(self, Z: Matrix) -> Matrix:
        """The inverse of `white`."""
        found = np.array(Z, dtype=np.float64)
        found[:, self.columns] = found[:, self.columns] @ self.root.T
        return found

    def between(self, width: int) -> Matrix:
        """Covariances of the noise of different columns, in released units; 0 on the diagonal."""
        found = np.zeros((width, width))
        found[np.ix_(self.columns, self.columns)] = self.source.variance * (self.root @ self.root.T)
        np.fill_diagonal(found, 0.0)
        return found


def apart(channels: Sequence[Channel]) -> Apart | None:
    """How columns that share noise are told apart; None where none do."""
    mixed = [channel for channel in channels if isinstance(channel, Mixed)]
    if not mixed:
        return None
    source = mixed[0].source
    if any(one.source != source or len(one.weights) != len(mixed) for one in mixed):
        raise CardError("The card's channels share noise in a way that cannot be: it was edited or is damaged.")
    root = np.array([one.weights for one in mixed])
    sizes = np.linalg.svd(root, compute_uv=False)
    if not sizes[-1] > SINGULAR * sizes[0]:
        raise CardError("The card's channels share noise by a matrix without an inverse: it was edited or is damaged.")
    ends = np.cumsum([channel.width for channel in channels])
    columns = [int(end) - 1 for end, one in zip(ends, channels, strict=True) if isinstance(one, Mixed)]
    independent = tuple(Additive(source) if isinstance(one, Mixed) else one for one in channels)
    return Apart(np.array(columns), root, source, independent)
