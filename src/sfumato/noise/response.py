"""Randomized response over k categories, by exact integer comparisons [Warner 1965; Kairouz et al. 2014].

A code is kept with probability p = T / 2^64 and else replaced by one of the k - 1 others, uniformly. The largest
likelihood ratio between two true codes is p (k - 1) / (1 - p) = T (k - 1) / (2^64 - T) or its inverse, whichever is
larger: a ratio of integers.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Codes
from sfumato.core.errors import UsageError
from sfumato.noise.grid import WORD, exact_bernoulli, uniform_integers

# Two levels of probability in exact integers: `near` outcomes are likelier than the `far` ones, by a known odds.
#
# A 64-bit word below the threshold T chooses the near outcomes, one of which is then drawn uniformly; else one of the
# far ones. A near outcome has probability T / (2^64 near), a far one (2^64 - T) / (2^64 far). What is near depends on
# the truth, so the largest likelihood ratio between two truths is
#
#     T far / ((2^64 - T) near)   or its inverse, whichever is larger: a ratio of integers.
#
# Randomized response over k categories is the case of 1 near and k - 1 far outcomes.


_EXACT = Context(prec=60)  # exp and ln of `decimal` are correctly rounded: errors of 1e-60, thresholds have 1e-19
_MARGIN = Decimal(1) + Decimal("1e-55")
MOST_KEPT = WORD - (WORD >> 53)
"""The largest double below 1, times 2^64: a card that rounded its probability to 1 could not be told from no noise."""


def odds_epsilon(threshold: int, near: int, far: int) -> float:
    """|ln(T far / ((2^64 - T) near))|, never rounded down; infinite when one outcome is impossible."""
    kept, changed = threshold * far, (WORD - threshold) * near
    if kept == 0 or changed == 0:
        return math.inf
    larger, smaller = max(kept, changed), min(kept, changed)
    if larger == smaller:
        return 0.0
    # ln(1 + x) with x = (larger - smaller) / smaller; 60 digits leave 40 even where x is 1e-19
    ratio = _EXACT.divide(Decimal(larger), Decimal(smaller))
    exact = _EXACT.add(_EXACT.multiply(_EXACT.ln(ratio), _MARGIN), Decimal("1e-55"))
    rounded = float(exact)
    return rounded if Decimal(rounded) >= exact else math.nextafter(rounded, math.inf)


def odds_threshold(epsilon: float, near: int, far: int) -> int | None:
    """The largest T, at most `MOST_KEPT`, whose `odds_epsilon` does not exceed `epsilon`; None where none is known."""
    # e^-epsilon instead of e^epsilon: a huge epsilon underflows to 0 and cannot overflow
    weight = _EXACT.multiply(_EXACT.divide(Decimal(far), Decimal(near)), _EXACT.exp(-Decimal(float(epsilon))))
    exact = _EXACT.divide(Decimal(WORD), _EXACT.add(Decimal(1), weight))
    threshold = min(int(exact.to_integral_value(rounding=ROUND_FLOOR)), MOST_KEPT)
    for candidate in (threshold + 1, threshold, threshold - 1):  # the quotient may round across an integer
        if 0 < candidate <= MOST_KEPT and odds_epsilon(candidate, near, far) <= epsilon:
            return candidate
    return None


def as_share(threshold: int) -> float:
    """T / 2^64 as a double that holds it exactly: T is rounded down to 53 bits, towards more noise."""
    spare = max(0, threshold.bit_length() - 53)
    return (threshold >> spare << spare) / WORD


def randomized_response(rng: np.random.Generator, codes: ArrayLike, categories: int, threshold: int) -> Codes:
    """Keep each code with probability `threshold` / 2^64, else draw one of the other categories uniformly."""
    given = np.asarray(codes)
    if given.size and given.dtype.kind not in "iu":
        raise UsageError(
            f"The 'codes' parameter of randomized_response must be an array of integers. Got {given.dtype} instead."
        )
    _check_categories(categories, "randomized_response")
    _check_threshold(threshold, "randomized_response")
    if given.size and (given.min() < 0 or given.max() >= categories):
        raise UsageError(
            f"The 'codes' parameter of randomized_response must be an array of integers from 0 to {categories - 1}. "
            "Got others instead."
        )
    truth = given.astype(np.int64)
    if categories == 1:
        return truth
    keep = exact_bernoulli(rng, threshold, truth.shape)
    other = uniform_integers(rng, categories - 1, truth.shape)  # drawn for all: the time tells nobody who was kept
    other += other >= truth
    return np.where(keep, truth, other)


def keep_threshold(epsilon: float, categories: int) -> int:
    """The largest T whose true epsilon, `response_epsilon(T, categories)`, does not exceed `epsilon`.

    T = floor(2^64 e^epsilon / (e^epsilon + k - 1)), at most `MOST_KEPT` unless `epsilon` is infinite.
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.floating) or not epsilon > 0:
        raise UsageError(
            f"The 'epsilon' parameter of keep_threshold must be a positive number. Got {epsilon!r} instead."
        )
    _check_categories(categories, "keep_threshold")
    if categories == 1 or math.isinf(epsilon):
        return WORD
    if (threshold := odds_threshold(epsilon, 1, categories - 1)) is not None:
        return threshold
    raise UsageError(
        f"The 'epsilon' parameter of keep_threshold must be at least about 1e-18, which is what 64-bit "
        f"probabilities can express for {categories} categories. Got {epsilon!r} instead."
    )


def response_epsilon(threshold: int, categories: int) -> float:
    """epsilon = |ln(T (k - 1) / (2^64 - T))|, never rounded down; infinite when one outcome is impossible."""
    _check_categories(categories, "response_epsilon")
    _check_threshold(threshold, "response_epsilon")
    if categories == 1:
        return 0.0
    return odds_epsilon(threshold, 1, categories - 1)


def _check_categories(categories: int, owner: str) -> None:
    if isinstance(categories, bool) or not isinstance(categories, int | np.integer) or categories < 1:
        raise UsageError(
            f"The 'categories' parameter of {owner} must be an integer of at least 1. Got {categories!r} instead."
        )


def _check_threshold(threshold: int, owner: str) -> None:
    if isinstance(threshold, bool) or not isinstance(threshold, int) or not 0 <= threshold <= WORD:
        raise UsageError(
            f"The 'threshold' parameter of {owner} must be an integer between 0 and 2^64. Got {threshold!r} instead."
        )
