"""Noise of one law carried by one operator: the law of z given x, and a check that the operator is sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.noise.law import Law, floats
from sfumato.noise.laws import Uniform
from sfumato.noise.operators import Branch, Operator

# Is an operator what it is declared to be? Branches, inverses and derivatives against the forward map itself.


_PROBES = 25
_TAILS = np.array([1e-6, 1e-4, 1e-3, 1e-2])
"""Quantiles near both ends of the noise, beside evenly spaced ones: a turning point hides there most easily."""
_VALUES = 65
_ROUNDING = float(np.finfo(np.float64).eps)


# What reconstruction and learners need of the noise on a number, however it came about.


class NumberNoise(Protocol):
    """The law of a released number z given the true one x, in raw units."""

    def cdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """P(Z <= z | x)."""

    def pdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """The density of z given x."""

    def span(self, x: ArrayLike, tail: float = 0.0) -> tuple[Floats, Floats]:
        """Least and largest z that x can become, leaving out `tail` of the probability on each side."""

    def stretched(self, factor: float) -> NumberNoise:
        """The same noise, `factor` times as wide."""

    def check(self, low: float, high: float, where: str = "The values") -> None:
        """Refuse a range of x in which it is not defined."""

    def to_dict(self) -> Mapping[str, Any]:
        """Plain figures, to compare two of them."""


@dataclass(frozen=True)
class OperatorNoise:
    """z = Z(e, x), e from `law`; everything in raw units."""

    operator: Operator
    law: Law

    def sample(self, x: Floats, rng: np.random.Generator) -> Floats:
        return floats(self.operator.forward(self.law.sample(rng, x.shape), x))

    def cdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """P(Z <= z | x), summed over the branches. What depends on x alone is computed once for every x."""
        z, x = floats(z), floats(x)
        total = np.zeros(np.broadcast_shapes(z.shape, x.shape))
        every = np.broadcast_to(x, total.shape)
        for branch in self.operator.branches:
            low, high = self.limits(branch, x)
            ends = self._forward(low, x), self._forward(high, x)
            inside = np.clip(z, np.minimum(*ends), np.maximum(*ends))
            with np.errstate(invalid="ignore"):
                e = np.clip(branch.inverse(inside, every), low, high)
            # Where z lies beyond an infinite end the inverse need not be defined; the nearer end is meant.
            e = np.where(np.isnan(e), np.where((z < inside) == (ends[0] < ends[1]), low, high), e)
            share = np.where(
                ends[0] <= ends[1], self.law.cdf(e) - self.law.cdf(low), self.law.cdf(high) - self.law.cdf(e)
            )
            total += np.where(low < high, share, 0.0)
        return floats(np.clip(total, 0.0, 1.0))

    def pdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """g(z | x): f_E at the inverse times |dE/dz|, summed over the branches; infinite at a turning point."""
        z, x = floats(z), floats(x)
        total = np.zeros(np.broadcast_shapes(z.shape, x.shape))
        for branch in self.operator.branches:
            low, high = self.limits(branch, x)
            ends = self._forward(low, x), self._forward(high, x)
            inside = (z >= np.minimum(*ends)) & (z <= np.maximum(*ends)) & (low < high)
            # Noise with ends reaches few of the cells, and an inverse may be a search.
            here, there = (np.broadcast_to(one, inside.shape)[inside] for one in (z, x))
            with np.errstate(invalid="ignore", divide="ignore"):
                e = branch.inverse(here, there)
                told = branch.derivative(here, there) if branch.slope is None else branch.slope(e, there)
                density = self.law.pdf(e) * np.abs(told)
            total[inside] += np.where(np.isnan(density), 0.0, density)
        return floats(total)

    def span(self, x: ArrayLike, tail: float = 0.0) -> tuple[Floats, Floats]:
        """Least and largest z that x can become, leaving out `tail` of the noise's probability on each side."""
        x = floats(x)
        lows, highs = [], []
        for branch in self.operator.branches:
            low, high = self.limits(branch, x, tail)
            ends = np.stack([self._forward(low, x), self._forward(high, x)])
            reached = low <= high
            lows.append(np.where(reached, ends.min(axis=0), np.inf))
            highs.append(np.where(reached, ends.max(axis=0), -np.inf))
        return floats(np.min(lows, axis=0)), floats(np.max(highs, axis=0))

    def limits(self, branch: Branch, x: Floats, tail: float = 0.0) -> tuple[Floats, Floats]:
        """Least and largest e of a branch at every x, within the noise less `tail` on each side."""
        first, last = self.law.support
        if tail > 0.0:
            first, last = max(first, float(self.law.ppf(tail))), min(last, float(self.law.ppf(1.0 - tail)))
        low = np.full(x.shape, first) if branch.low is None else np.clip(branch.low(x), first, last)
        high = np.full(x.shape, last) if branch.high is None else np.clip(branch.high(x), first, last)
        return floats(low), floats(high)

    def _forward(self, e: Floats, x: Floats) -> Floats:
        """Infinite e may meet infinite e in an operator: the far end is then approached from a finite one."""
        with np.errstate(invalid="ignore", over="ignore"):
            z = self.operator.forward(e, x)
            if np.isnan(z).any():
                z = np.where(np.isnan(z), self.operator.forward(np.clip(e, -1e60, 1e60), x), z)
        return floats(z)

    @property
    def slope(self) -> float:
        """By what x is multiplied on average, for operators that are linear in x; 1 for the others.

        Additive noise counts as itself, mean and all: its law tells.
        """
        base = self.operator.parameters.get("base")
        return 1.0 if self.operator.name != "multiplicative" or base is None else base + self.law.mean

    def stretched(self, factor: float) -> OperatorNoise:
        """The same noise, `factor` times as wide about its mean."""
        if isinstance(self.law, Uniform):
            low, high = self.law.support
            middle, half = 0.5 * (low + high), 0.5 * (high - low) * factor
            return OperatorNoise(self.operator, Uniform(low=middle - half, high=middle + half))
        return OperatorNoise(self.operator, self.law.scaled(factor))

    def check(self, low: float, high: float, where: str = "The values") -> None:
        """Refuse what a release or its readers would get wrong, by quantiles of the noise and points of [low, high].

        An x of 0 must be protected. Every e must lie in exactly one branch, on which the forward map is monotone, the
        inverse leads back to e, and the derivative is that of the inverse.
        """
        operator, name = self.operator, self.operator.name
        if operator.avoids_zero and low <= 0.0 <= high:
            raise UsageError(
                f"{where} can be 0, and {name} noise does not protect a 0 at all. Give this column noise "
                "that is added (`noise: {operator: additive}` in the schema), declare bounds that leave 0 out (for "
                "learned bounds: write a schema), make it categorical, drop it (role: identifier), or use "
                "additive-noise."
            )
        q = np.sort(np.concatenate([(np.arange(_PROBES) + 0.5) / _PROBES, _TAILS, 1.0 - _TAILS]))
        x = np.linspace(low, high, _VALUES)[:, None] * np.ones(len(q))
        e = np.broadcast_to(self.law.ppf(q), x.shape)
        with np.errstate(all="ignore"):
            z = floats(operator.forward(e, x))
            if np.isnan(z).any():
                raise UsageError(f"The operator {name} gives values that are not numbers for some of its noise.")
            # Between two values at which all noise works the opposite way, there is one that it does not touch at all.
            way = np.sign(np.diff(z, axis=1))
            turned = (way[1:] == -way[:-1]).all(axis=1) & (way[1:] != 0).any(axis=1)
            if turned.any() or (way == 0).all(axis=1).any():
                raise UsageError(
                    f"The operator {name} leaves some value of the range as it is, whatever the noise: it would not be "
                    "protected at all. Choose another operator, or bounds that leave that value out."
                )
            covered, claimed = np.zeros(x.shape, dtype=bool), np.zeros(x.shape, dtype=np.int64)
            for branch in operator.branches:
                first, last = self.limits(branch, x)
                mine = (e >= first) & (e <= last)
                covered |= mine
                claimed += (e > first) & (e < last)
                # Along each x; `cdf` counts from one end of a branch to the other.
                rise, speck = np.diff(z, axis=1), 8.0 * _ROUNDING * np.abs(z[:, 1:])
                within = mine[:, 1:] & mine[:, :-1]
                both = (within & (rise > speck)).any(axis=1) & (within & (rise < -speck)).any(axis=1)
                self._check_branch(branch, e[mine], x[mine], z[mine], is_one_way=not both.any())
        if not covered.all():
            raise UsageError(f"The branches of the operator {name} do not cover all noise of its law.")
        if (claimed > 1).any():
            raise UsageError(
                f"Branches of the operator {name} overlap: the same noise would count twice. Give them limits."
            )

    def _check_branch(self, branch: Branch, e: Floats, x: Floats, z: Floats, *, is_one_way: bool) -> None:
        """That the inverse leads back, and |dE/dz| against differences of the forward map, where these can be trusted.

        Not next to a turning point, where over a hundredth of the noise the map moves much further than its slope says;
        not at a jump, where differences over h and 2 h disagree; not where the rise is lost in the digits of z.
        """
        name, size = self.operator.name, float(self.law.ppf(0.75) - self.law.ppf(0.25))  # without a variance there too
        slope = np.abs(branch.derivative(z, x))
        lost = 8.0 * _ROUNDING * (np.abs(z) + np.abs(x)) * np.nan_to_num(slope, nan=0.0, posinf=np.inf)
        lost = np.nan_to_num(lost, nan=0.0)  # digits of e that z cannot hold
        if not np.all(np.abs(branch.inverse(z, x) - e) <= 1e-6 * (size + np.abs(e)) + lost):
            raise UsageError(
                f"The inverse of the operator {name} does not match its forward map: "
                "inverse(forward(e, x), x) is not e. If several e lead to one z, declare a branch for each."
            )
        if not is_one_way:
            raise UsageError(
                f"The operator {name} rises and falls on one branch. Declare a branch for each rise and each fall."
            )
        step, wide = 1e-5 * size, 1e-2 * size

        def at(shift: float) -> Floats:
            return floats(self.operator.forward(e + shift, x))

        rise, double = at(step) - at(-step), at(2.0 * step) - at(-2.0 * step)
        measured = np.abs(2.0 * step / rise)
        far = np.fmax(np.abs(at(wide) - z), np.abs(at(-wide) - z))
        trusted = (
            (np.abs(double / (2.0 * rise) - 1.0) < 1e-4)
            & (np.abs(rise) > 1e4 * _ROUNDING * (np.abs(z) + np.abs(x)))
            & ~(far * measured > 4.0 * wide)
        )
        if (trusted & ~(np.abs(slope / measured - 1.0) < 1e-3)).any():
            raise UsageError(
                f"The derivative of the operator {name}'s inverse is not |dE/dz|: it must be the "
                "derivative by z (not by x, as the paper's Theorem 1 prints it)."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain figures, to compare two of them; purely additive noise needs no operator."""
        stated = self.law.to_dict()
        if self.operator.is_additive:
            return stated
        return {**stated, "operator": self.operator.name, "operator_parameters": dict(self.operator.parameters)}
