"""What a record's local epsilon comes to against an attacker who sees only a shuffled crowd.

By Feldman, McMillan & Talwar (2021).

n people release one record each by the same randomizer, which has the local epsilon e, and an honest shuffler drops who
sent what. Two tables differ in one person's record. Whatever the other records are, each of the n - 1 others looks with
probability exp(-e) as if it were drawn from one of two laws, with equal chances: a clone. The two laws Q0 and Q1 are
those of which the person's own two releases are mixtures, with weights e^e / (1 + e^e) and 1 / (1 + e^e). So all that
is left to tell the two tables apart is (Theorem 3.2, section 5 for its numerical use)

    C ~ Binomial(n - 1, exp(-e)),  A ~ Binomial(C, 1/2),  D ~ Bernoulli(e^e / (1 + e^e)),
    (A + D, C - A + 1 - D)  against  (A + 1 - D, C - A + D).

Given C = c, the ratio of the two laws of the first count grows with it, so the divergence is a difference of upper
tails of Binomial(c, 1/2). Counts C that hardly ever occur are charged to delta in full.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.stats import binom

DELTA = 1e-6
_LEFT_OUT = 1e-3
"""The part of delta that counts far from their mean may cost."""
_ROUNDING = 1e-9
"""Relative error that tails of binomials computed in doubles certainly stay below."""
_STEPS = 50


NO_CLONES = 50.0
"""Above this local epsilon nobody looks like anybody else: no crowd is large enough to gain from."""


@lru_cache(maxsize=1024)
def shuffled_epsilon(local: float, people: int, delta: float = DELTA) -> float:
    """The smallest epsilon (rounded up) that holds at `delta`, in a crowd of so many people; `local` where none is
    gained."""
    if not 0 < local < math.inf or people < 1 or not 0 < delta < 1:
        return math.inf if not 0 <= local < math.inf else local
    if local > NO_CLONES:
        return local
    if shuffled_delta(local, people, 0.0, delta) <= delta:
        return 0.0
    low, high = 0.0, local
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if shuffled_delta(local, people, middle, delta) <= delta:
            high = middle
        else:
            low = middle
    return high


def shuffled_delta(local: float, people: int, epsilon: float, at: float = DELTA) -> float:
    """An upper bound of the delta that holds at `epsilon`; counts that cost less than a thousandth of `at` are not
    looked at, but charged."""
    if epsilon >= local:
        return 0.0
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
