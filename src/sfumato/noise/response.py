"""Randomized response over k categories, by exact integer comparisons [Warner 1965; Kairouz et al. 2014].

A code is kept with probability p = T / 2^64 and else replaced by one of the k - 1 others, uniformly. The largest
likelihood ratio between two true codes is p (k - 1) / (1 - p) = T (k - 1) / (2^64 - T) or its inverse, whichever is
larger: a ratio of integers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Codes
from sfumato.errors import UsageError
from sfumato.noise.grid import WORD, exact_bernoulli, uniform_integers
from sfumato.noise.odds import odds_epsilon, odds_threshold


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
