"""Noise that an operator carries into a number, in the number's own units: z = Z(e, x) [density-reconstruction]."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Self

import numpy as np

from sfumato.channels.base import FLOAT_NOISE, Channel, Factor, Line, NotApplicableError, Reached, register
from sfumato.core.accepted import Positive
from sfumato.core.array_types import Matrix
from sfumato.core.errors import UsageError
from sfumato.core.records import APART, Key
from sfumato.noise import A_LAW, CUSTOM, Law, Operator, OperatorNoise, make_operator
from sfumato.noise.law import tail

_VALUES, _NODES, _STEPS, _REACHED = 500, 1000, 2000, 1025
"""Values of the population and of the noise over which a line is averaged; steps of the range for an interval."""


@register
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

    @property
    def path(self) -> str:
        return FLOAT_NOISE

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

    def line(self, values: Matrix) -> Line:
        u, noise = values[:, 0], self.noise
        if noise.operator.name != "multiplicative" and len(u) > _VALUES:
            u = np.quantile(u, (np.arange(_VALUES) + 0.5) / _VALUES)
        mean, variance = self._moments(u)
        centre, spread = float(u.mean()), float(u.var())
        slope = float(np.mean((u - centre) * mean)) / spread if spread > 1e-12 else noise.slope
        left = float(variance.mean()) + float(mean.var()) - slope**2 * spread
        offset = float(mean.mean()) - slope * centre
        return Line(np.array([[slope]]), np.array([offset]), np.array([[max(left, 0.0)]]))

    def _moments(self, u: Matrix) -> tuple[Matrix, Matrix]:
        """Mean and variance of z given u; by the midpoint rule over the noise where there is no closed form."""
        x, law, noise = self.raw(u), self.law, self.noise
        if noise.operator.name == "multiplicative":
            mean, variance = noise.slope * x, law.variance * x**2
        else:
            e = law.ppf((np.arange(_NODES) + 0.5) / _NODES)
            z = noise.operator.forward(e[:, None], x[None, :])
            mean, variance = z.mean(axis=0), z.var(axis=0)
        return np.asarray((mean - self.low) / self.range), np.asarray(variance / self.range**2)

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
