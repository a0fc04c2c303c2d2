"""Zero-concentrated differential privacy: how measurements add up, and what they come to as epsilon and delta.

Neighbouring tables differ in one record that is there or is not. Discrete Gaussian noise of variance s on counts that
a record changes by 1 costs rho = 1 / (2 s). A choice by the exponential mechanism with parameter epsilon has bounded
range and costs epsilon^2 / 8 (Cesar & Rogers 2021). Costs add up. What rho comes to at a delta is Proposition 12 of
Canonne, Kamath & Steinke (2020), which holds for every alpha > 1:

    epsilon = rho alpha + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1 / alpha)

A group of m records costs m^2 rho. Replacing a record by another is taking one away and adding one, a group of two,
and costs 4 rho at most. What is known of the measurements says less: a table of counts changes in two cells by 1, and
noise on counts costs by the squared distance, so 2 rho; the scores of a choice change by 2, so 4 rho (see
`Measurement.rho_replaced`).

Perturbed records have an epsilon for their values, whoever else is in the table. Beside what was measured of tables
both are seen, so that they add up for values, the one notion of neighbours that both have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from sfumato.channels.measured import Measurement
from sfumato.guarantee.posterior import loss_of_rho
from sfumato.guarantee.rounding import rounded_up, sum_up

LARGEST_RHO = 1e6
_STEPS = 100
_LOWEST, _HIGHEST = math.log(1e-9), math.log(1e9)
"""Between which alpha - 1 is searched for, on a logarithmic scale: the bound has one minimum."""


@dataclass(frozen=True)
class Central:
    """What was measured of a table costs: `pure` epsilon, and `rho` whose epsilon is taken at `delta`.

    `replaced` is the rho of one record that is replaced by any other; None where it is not stated, as on cards and in
    ledgers of 0.2: 4 rho."""

    pure: float = 0.0
    rho: float = 0.0
    delta: float = 0.0
    replaced: float | None = None

    @classmethod
    def of(cls, measured: Sequence[Measurement], delta: float) -> Central:
        """From everything that was measured; infinite where something was measured without noise."""
        if delta == 0.0:
            return cls(pure=sum_up(one.epsilon for one in measured))
        rho, replaced = (
            _up(math.fsum(some)) for some in zip(*((m.rho, m.rho_replaced) for m in measured), strict=True)
        )
        return cls(rho=rho, delta=delta, replaced=replaced)

    @cached_property
    def epsilon(self) -> float:
        """The better of two bounds: both kinds apart, or the pure part as epsilon^2 / 2 of rho."""
        if self.rho == 0.0:
            return self.pure
        if self.delta == 0.0:
            return math.inf
        apart = sum_up([self.pure, epsilon_of(self.rho, self.delta)])
        return min(apart, epsilon_of(_up(self.rho + self.pure**2 / 2.0), self.delta))

    def group(self, size: int) -> Central:
        """For a group of `size` records that come and go together: a person with so many rows."""
        replaced = None if self.replaced is None else self.replaced * size**2
        return Central(self.pure * size, self.rho * size**2, self.delta, replaced)

    @property
    def rho_replaced(self) -> float:
        """Of one record that is replaced by any other."""
        return 4.0 * self.rho if self.replaced is None else self.replaced

    @property
    def value(self) -> Central:
        """For a person who is in the table anyway, and whose values are guessed at: one record goes, another comes.

        The only place where a cost of presence becomes one of values; a pure epsilon doubles.
        """
        return Central(self.pure * 2, self.rho_replaced, self.delta)

    def __add__(self, other: Central) -> Central:
        """Both were seen: at the smaller delta, so that no sum is below what one of them costs alone."""
        smaller = min(self.delta, other.delta) or max(self.delta, other.delta)  # 0 is that of a pure cost
        stated = self.replaced is not None or other.replaced is not None
        replaced = sum_up([self.rho_replaced, other.rho_replaced]) if stated else None
        return Central(sum_up([self.pure, other.pure]), sum_up([self.rho, other.rho]), smaller, replaced)

    def at_least(self, other: Central) -> Central:
        """This cost, which is said to include the other: read at its delta where that is smaller, and never below."""
        read = replace(self, delta=(self + other).delta)
        if read.epsilon < other.epsilon:
            return other
        return replace(read, replaced=max(read.rho_replaced, other.rho_replaced))

    def words(self) -> str:
        """The figures in a few characters."""
        return _in_short(self.epsilon, self.delta)

    def to_dict(self) -> dict[str, Any]:
        finite = math.isfinite(self.epsilon)
        return {
            "epsilon": self.epsilon if finite else None,
            "delta": self.delta,
            "rho": self.rho,
            "pure": self.pure if math.isfinite(self.pure) else None,
            **({} if self.replaced is None else {"rho_replaced": self.replaced}),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Central:
        """Its epsilon is computed, whatever stands there."""
        pure, replaced = found["pure"], found.get("rho_replaced")
        rho = float(found["rho"])
        # A cost below that of a record which comes or goes cannot be: it is taken for a slip of the pen.
        stated = None if replaced is None or not float(replaced) >= rho else float(replaced)
        return cls(math.inf if pure is None else float(pure), rho, float(found["delta"]), stated)


NOTHING_PROVED = Central(pure=math.inf)
"""Of made-up rows, where something voids the claim: a seed, or a choice that looked."""


@dataclass(frozen=True)
class Values:
    """What releases come to for a person's values: `local`, the sum of the epsilons of perturbed records, and what was
    measured of tables (`central`), under replacement."""

    local: float = 0.0
    central: Central | None = None

    def __add__(self, other: Values) -> Values:
        """Both were seen."""
        measured = [one for one in (self.central, other.central) if one is not None]
        central = measured[0] + measured[1] if len(measured) == 2 else measured[0] if measured else None
        return Values(sum_up([self.local, other.local]), central)

    def group(self, size: int) -> Values:
        """The same for a person with so many rows."""
        return Values(self.local * size, None if self.central is None else self.central.group(size))

    @cached_property
    def epsilon(self) -> float:
        return self.local if self.central is None else sum_up([self.local, self.central.value.epsilon])

    @property
    def loss(self) -> float:
        """What bounds beliefs, but for `delta`: epsilon of perturbed records, the privacy loss of made-up rows."""
        if self.central is None or not self.bounded:
            return self.epsilon
        cost = self.central.value
        return sum_up([self.local, cost.pure, loss_of_rho(cost.rho, cost.delta)])

    @property
    def delta(self) -> float:
        return 0.0 if self.central is None else self.central.delta

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.epsilon)

    def words(self) -> str:
        """The figures in a few characters."""
        return _in_short(self.epsilon, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """As it stands on a card."""
        central = None if self.central is None else self.central.to_dict()
        return {"local": self.local if math.isfinite(self.local) else None, "central": central}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Values:
        """The inverse of `to_dict`."""
        local, central = found.get("local"), found.get("central")
        return cls(math.inf if local is None else float(local), Central.from_dict(central) if central else None)


def epsilon_of(rho: float, delta: float) -> float:
    """The least epsilon that the proposition gives, rounded up; any alpha is valid, so that the search cannot err."""
    if rho == 0.0:
        return 0.0
    if not rho <= LARGEST_RHO:
        return math.inf
    a, b = _LOWEST, _HIGHEST
    for _ in range(_STEPS):
        left, right = a + (b - a) / 3, b - (b - a) / 3
        if _bound(rho, delta, math.exp(left)) < _bound(rho, delta, math.exp(right)):
            b = right
        else:
            a = left
    return max(0.0, _up(_bound(rho, delta, math.exp((a + b) / 2))))


@lru_cache(maxsize=64)
def rho_for(epsilon: float, delta: float) -> float:
    """The largest rho whose epsilon at this delta does not exceed the one wanted.

    Remembered: it takes a tenth of a second, and an audit of fits asks for the same one hundreds of times.
    """
    low, high = 0.0, 1.0
    while epsilon_of(high, delta) <= epsilon and high < LARGEST_RHO:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


def _in_short(epsilon: float, delta: float) -> str:
    if not math.isfinite(epsilon):
        return "no bound"
    return f"epsilon {rounded_up(epsilon)}" + (f", delta {delta:g}" if delta else "")


def _bound(rho: float, delta: float, more: float) -> float:
    """The proposition at alpha = 1 + `more`."""
    alpha = 1.0 + more
    return rho * alpha - (math.log(alpha) + math.log(delta)) / more + math.log(more) - math.log(alpha)


def _up(value: float) -> float:
    """Sums of doubles may miss by an ulp or two; a claim is never rounded down."""
    return value * (1 + 1e-12) if math.isfinite(value) else value
