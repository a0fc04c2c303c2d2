"""What releases cost: from epsilon, delta and rho to what an attacker can come to believe, in figures and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sfumato.channels.recipe import Measurement
from sfumato.core.errors import UsageError
from sfumato.core.wording import joined, said
from sfumato.guarantee.rounding import of_100, rounded_up, sum_up

# From epsilon to what an adversary can come to believe, and back.
#
# With amplification gamma = e^epsilon, the posterior of any property with prior rho lies between ``rho / (rho + gamma
# (1 - rho))`` and ``gamma rho / (1 + (gamma - 1) rho)`` [principal-laplace, Theorem 3 and Eq. 2; Evfimievski, Gehrke &
# Srikant 2003].
#
# The most that any belief gains, over all priors, is tanh(epsilon / 4): the bound minus the prior is largest at the
# prior 1 / (1 + e^(epsilon / 2)).
#
# Of made-up rows the privacy loss has no bound that always holds. Under rho (one record replaced) it passes rho + 2
# sqrt(rho ln(1 / delta)) with probability at most delta [Bun & Steinke 2016, Proposition 1.3], so beliefs are bounded
# by that in place of epsilon, except with probability delta.
#
# An attacker who is shown two people, and told that one of them is in the table, is right in (1 + t) / 2 of all pairs
# at most, where t is the total variation between the releases of both tables: tanh(epsilon / 2) under a pure epsilon,
# and under rho at most sqrt(rho / 2) (Pinsker: the divergence of order 1 is at most rho) and sqrt(1 - e^-rho)
# (Bretagnolle & Huber). If both people are in it and rows are blurred one by one, exchanging them changes two records:
# 2 epsilon.

PRIOR = 0.1  # one chance in ten: a belief that people have met
RARE, PRACTICALLY_UNPROTECTED = 0.001, 0.5
"""A belief that few would hold, and what it must not come to."""


def amplification(epsilon: float) -> float:
    """gamma = e^epsilon; smaller is safer."""
    return math.exp(epsilon) if epsilon < 700 else math.inf


def posterior_bound(prior: float, epsilon: float, *, downward: bool = False) -> float:
    """The most (or, downward, the least) that a prior belief can become; closer to the prior is safer.

    Works with logits, since e^epsilon overflows long before the bound reaches one.

    >>> round(posterior_bound(0.001, 1 / 0.3), 4)
    0.0273
    """
    _check_probability("prior", prior)
    if not epsilon >= 0:
        raise UsageError(f"The epsilon of a posterior bound must be a number of at least 0. Got {epsilon!r} instead.")
    logit = math.log(prior) - math.log1p(-prior)
    logit += -epsilon if downward else epsilon
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700 else 0.0


def practically_unprotected(loss: float) -> bool:
    """Whether a rare belief can become likelier than not.

    >>> practically_unprotected(6.0), practically_unprotected(8.0)
    (False, True)
    """
    return posterior_bound(RARE, loss) > PRACTICALLY_UNPROTECTED


def epsilon_for_posterior(prior: float, posterior: float) -> float:
    """The epsilon at which `prior` can just become `posterior`: the inverse of `posterior_bound`.

    >>> round(epsilon_for_posterior(0.001, posterior_bound(0.001, 2.5)), 9)
    2.5
    """
    _check_probability("prior", prior)
    _check_probability("posterior", posterior)
    if posterior <= prior:
        raise UsageError(
            f"The largest posterior ({posterior:g}) must exceed the prior ({prior:g}): "
            "no release can make an attacker forget what they believed before."
        )
    return math.log(posterior) - math.log1p(-posterior) - math.log(prior) + math.log1p(-prior)


def most_gained(loss: float) -> float:
    """What any belief gains at most, whatever it was before.

    >>> round(most_gained(4 * math.atanh(0.2)), 9)
    0.2
    """
    return math.tanh(loss / 4.0)


def loss_for_gain(gain: float) -> float:
    """The inverse of `most_gained`."""
    _check_probability("largest gain of a belief", gain)
    return 4.0 * math.atanh(gain)


def loss_of_rho(rho: float, delta: float) -> float:
    """What the privacy loss exceeds with probability at most `delta`, under this rho."""
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)) if rho else 0.0


def rho_of_loss(loss: float, delta: float) -> float:
    """The inverse of `loss_of_rho`.

    >>> round(loss_of_rho(rho_of_loss(0.8, 1e-6), 1e-6), 12)
    0.8
    """
    rare = math.log(1.0 / delta)
    return (math.sqrt(rare + loss) - math.sqrt(rare)) ** 2


def pairs_told_apart(epsilon: float = 0.0, rho: float = 0.0) -> float:
    """Which of two people a record is: right at most in this share of pairs.

    >>> round(pairs_told_apart(epsilon=1.0), 4), round(pairs_told_apart(rho=0.02), 4)
    (0.7311, 0.55)
    """
    whole = rho + epsilon**2 / 2.0
    bounds = [math.sqrt(whole / 2.0), math.sqrt(-math.expm1(-whole))]
    if rho == 0.0:
        bounds.append(math.tanh(epsilon / 2.0))
    return (1.0 + min(1.0, *bounds)) / 2.0


def _check_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise UsageError(f"The {name} must be a probability strictly between 0 and 1. Got {value:g} instead.")


# Zero-concentrated differential privacy: how measurements add up, and what they come to as epsilon and delta.
#
# Neighbouring tables differ in one record that is there or is not. Discrete Gaussian noise of variance s on counts that
# a record changes by 1 costs rho = 1 / (2 s). A choice by the exponential mechanism with parameter epsilon has bounded
# range and costs epsilon^2 / 8 (Cesar & Rogers 2021). Costs add up. What rho comes to at a delta is Proposition 12 of
# Canonne, Kamath & Steinke (2020), which holds for every alpha > 1:
#
#     epsilon = rho alpha + ln(1 / (alpha delta)) / (alpha - 1) + ln(1 - 1 / alpha)
#
# A group of m records costs m^2 rho. Replacing a record by another is taking one away and adding one, a group of two,
# and costs 4 rho at most. What is known of the measurements says less: a table of counts changes in two cells by 1, and
# noise on counts costs by the squared distance, so 2 rho; the scores of a choice change by 2, so 4 rho (see
# `Measurement.rho_replaced`).
#
# Perturbed records have an epsilon for their values, whoever else is in the table. Beside what was measured of tables
# both are seen, so that they add up for values, the one notion of neighbours that both have.

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
        less = _bound(rho, delta, math.exp(left)) < _bound(rho, delta, math.exp(right))
        a, b = (a, right) if less else (left, b)
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


# The promise in words: what a person's own row can teach, from beliefs that people have, and who is known to be there.
#
# The only place where a bound on beliefs becomes a sentence: terminal, card, report and certificate all say this one.
# What bounds beliefs is `Values.loss`; where it does so but for a delta, that stands beside the chances.

BELIEFS = {PRIOR: (said("1 chance in 10"), 10), 0.5: (said("1 in 2"), 10), 0.001: (said("1 in 1,000"), 1_000)}
"""How beliefs are said before, and out of how many after; the first is said where there is room for one."""
FALSE_ALARMS = 0.01
OWN_ROW = "a person's own row"
ONE_OF_THEM = "one of a person's rows"
"""Where nothing bounds how many rows a person has, so that a promise can only be for one of them."""


def own_rows(rows: int | None) -> str:
    """Who is promised something: a person with so many rows, all of them together (None: it is not known how many).

    >>> own_rows(1), own_rows(6), own_rows(None)
    ("a person's own row", "a person's 6 rows together", "a person's rows together")
    """
    if rows == 1:
        return OWN_ROW
    return "a person's rows together" if rows is None else said("a person's {rows:,} rows together", rows=rows)


def promise(values: Values, own: str = OWN_ROW, beside: str = "", priors: Sequence[float] = tuple(BELIEFS)) -> str:
    """What is proved for the `values` of a person's `own` rows, which are bounded together."""
    lifts = [
        said("from {belief} to {chance}", belief=BELIEFS[one][0], chance=chance_at_most(one, values.loss))
        for one in priors
    ]
    lifted = joined([joined(lifts[:-1], ", "), lifts[-1]], " and ") if lifts[1:] else lifts[0]
    told = "Proved: whatever the other rows teach, {own} can lift a fact {lifted}{but}{beside}."
    beside = said(" ({figures})", figures=beside) if beside else ""
    return said(told, own=said(own), lifted=lifted, but=but_for(values.delta), beside=beside)


def chance_at_most(prior: float, loss: float) -> str:
    """What a belief can become, rounded up, and never to certainty.

    >>> chance_at_most(0.1, 1.0), chance_at_most(0.001, 1.0), chance_at_most(0.5, 9.0)
    ('at most 2.4 in 10', 'at most 2.8 in 1,000', 'nearly 10 in 10')
    """
    out_of = BELIEFS[prior][1]
    exact = Decimal(f"{posterior_bound(prior, loss):.12f}") * out_of  # without what doubles add to 2 in 10
    chances = exact.quantize(Decimal("0.1") if exact < 10 else Decimal(1), ROUND_CEILING)
    told = "nearly {of:,} in {of:,}" if chances >= out_of else "at most {chances:g} in {of:,}"
    return said(told, chances=float(chances), of=out_of)


def but_for(delta: float) -> str:
    """What stands beside every chance that is bounded but for a delta."""
    return said(", except with probability {delta:g}", delta=delta) if delta else ""


def presence(central: Central, first: str = "") -> str:
    """What central differential privacy comes to, about the presence of one record: at most e^epsilon times the false
    alarms, and delta more. `first`: what the tester does before."""
    right = of_100(FALSE_ALARMS * math.exp(min(central.epsilon, 700.0)) + central.delta)
    often = f"is right at most {right} times in 100" if right < 100 else "may be right every time"
    return f"Whoever {first}tests for a person and is wrong 1 time in 100 {often} ({central.words()})."


def figures(values: Values, hides_presence: bool, rows: int | None = None) -> str:
    """The experts' figures in a few characters, and of how many `rows` of a person, where that is said."""
    told: list[str] = [said("epsilon {epsilon} for values", epsilon=rounded_up(values.epsilon))]
    if hides_presence and values.central is not None:
        told.append(said("{epsilon} for presence", epsilon=rounded_up(values.central.epsilon)))
    each = "one row each" if rows == 1 else said("up to {rows:,} rows each", rows=rows or 0)
    return joined(told if rows is None else [*told, each], ", ")


# What a record's local epsilon comes to against an attacker who sees only a shuffled crowd.
#
# By Feldman, McMillan & Talwar (2021).
#
# n people release one record each by the same randomizer, which has the local epsilon e, and an honest shuffler drops
# who sent what. Two tables differ in one person's record. Whatever the other records are, each of the n - 1 others
# looks with probability exp(-e) as if it were drawn from one of two laws, with equal chances: a clone. The two laws Q0
# and Q1 are those of which the person's own two releases are mixtures, with weights e^e / (1 + e^e) and 1 / (1 + e^e).
# So all that is left to tell the two tables apart is (Theorem 3.2, section 5 for its numerical use)
#
#     C ~ Binomial(n - 1, exp(-e)),  A ~ Binomial(C, 1/2),  D ~ Bernoulli(e^e / (1 + e^e)),
#     (A + D, C - A + 1 - D)  against  (A + 1 - D, C - A + D).
#
# Given C = c, the ratio of the two laws of the first count grows with it, so the divergence is a difference of upper
# tails of Binomial(c, 1/2). Counts C that hardly ever occur are charged to delta in full.

DELTA = 1e-6
_LEFT_OUT = 1e-3  # the part of delta that counts far from their mean may cost
_ROUNDING = 1e-9  # relative error that tails of binomials computed in doubles certainly stay below
_BISECTIONS = 50

NO_CLONES = 50.0
"""Above this local epsilon no one looks like anybody else: no crowd is large enough to gain from."""


@lru_cache(maxsize=1024)
def shuffled_epsilon(local: float, people: int, delta: float = DELTA) -> float:
    """The smallest epsilon (rounded up) that holds at `delta` in a crowd of so many; `local` where none is gained."""
    if not 0 < local < math.inf or people < 1 or not 0 < delta < 1:
        return math.inf if not 0 <= local < math.inf else local
    if local > NO_CLONES:
        return local
    if shuffled_delta(local, people, 0.0, delta) <= delta:
        return 0.0
    low, high = 0.0, local
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if shuffled_delta(local, people, middle, delta) <= delta else (middle, high)
    return high


def shuffled_delta(local: float, people: int, epsilon: float, at: float = DELTA) -> float:
    """An upper bound of the delta that holds at `epsilon`; counts that cost less than a thousandth of `at` are not
    looked at, but charged."""
    if epsilon >= local:
        return 0.0
    from scipy.stats import binom  # slow to load

    others, clone = people - 1, math.exp(-local)
    left_out = at * _LEFT_OUT
    first = max(0, int(binom.ppf(left_out / 2, others, clone)) - 1)
    last = min(others, int(binom.isf(left_out / 2, others, clone)) + 1)
    c = np.arange(first, last + 1)
    # q P(D = 1) and its rest, so that e^local = q / rest; the ratio of the two laws at the count a exceeds e^epsilon
    # where a / (c + 1 - a) exceeds `odds`.
    q = 1.0 / (1.0 + clone)
    rest, factor = 1.0 - q, math.exp(epsilon)
    gain, cost = q - factor * rest, factor * q - rest
    odds = cost / gain if gain > 0 else math.inf
    threshold = np.floor((c + 1) * (odds / (1.0 + odds) if math.isfinite(odds) else 1.0))
    upper, above = binom.sf(threshold - 1, c, 0.5), binom.sf(threshold, c, 0.5)
    each = np.maximum(gain * upper - cost * above, 0.0) + _ROUNDING * upper
    outside = binom.cdf(first - 1, others, clone) + binom.sf(last, others, clone)
    return float(binom.pmf(c, others, clone) @ each + outside)
