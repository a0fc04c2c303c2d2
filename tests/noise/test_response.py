"""Randomized response: its channel, and an epsilon that is never understated."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sfumato.core.errors import UsageError
from sfumato.noise import Streams
from sfumato.noise.response import MOST_KEPT, keep_threshold, randomized_response, response_epsilon


def rng(seed=0):
    return Streams.seeded(seed).generator(0)


def exp_bounds(x):
    """Rational lower and upper bounds of e^x, x >= 0: a Taylor sum and its remainder, independent of `decimal`."""
    x = Fraction(x)
    halvings = max(0, math.ceil(math.log2(float(x) + 1e-300))) + 1 if x > 1 else 0
    small = x / 2**halvings
    term, low = Fraction(1), Fraction(0)
    for i in range(1, 40):
        low += term
        term = term * small / i
    high = low + 2 * term
    for _ in range(halvings):
        low, high = low * low, high * high
        low = Fraction(math.floor(low * 2**400), 2**400)  # keep the numbers short, outward
        high = Fraction(math.ceil(high * 2**400), 2**400)
    return low, high


@pytest.mark.parametrize("categories", [2, 3, 7])
def test_channel_has_its_probabilities_and_no_others(categories):
    epsilon = 1.2
    threshold = keep_threshold(epsilon, categories)
    keep = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    assert threshold / 2**64 == pytest.approx(keep, rel=1e-15)
    for truth in range(categories):
        answers = randomized_response(rng(truth), np.full(60_000, truth), categories, threshold)
        counts = np.bincount(answers, minlength=categories)
        expected = np.full(categories, 60_000 * (1 - keep) / (categories - 1))
        expected[truth] = 60_000 * keep
        assert stats.chisquare(counts, expected).pvalue > 1e-6
        wrong = math.exp(1.3 * epsilon) / (math.exp(1.3 * epsilon) + categories - 1)
        assert stats.binomtest(int(counts[truth]), 60_000, wrong).pvalue < 1e-20


@settings(deadline=None)
@given(st.floats(1e-6, 43), st.integers(2, 1000))
def test_true_epsilon_never_exceeds_the_one_asked_for(epsilon, categories):
    threshold = keep_threshold(epsilon, categories)
    ratio = Fraction(threshold * (categories - 1), 2**64 - threshold)
    assert max(ratio, 1 / ratio) <= exp_bounds(epsilon)[1]
    stated = response_epsilon(threshold, categories)
    assert stated <= epsilon
    assert max(ratio, 1 / ratio) <= exp_bounds(stated)[1]  # never rounded down
    assert max(ratio, 1 / ratio) >= exp_bounds(stated * (1 - 1e-12))[0]  # nor up by much
    # the next threshold would exceed it: nothing is given away
    if threshold < MOST_KEPT:
        assert response_epsilon(threshold + 1, categories) > epsilon


def test_ends():
    assert response_epsilon(2**63, 2) == 0
    assert response_epsilon(2**64, 2) == math.inf
    assert response_epsilon(0, 3) == math.inf
    assert response_epsilon(123, 1) == 0
    assert keep_threshold(math.inf, 3) == 2**64
    assert keep_threshold(1000.0, 3) == MOST_KEPT
    assert math.nextafter(1.0, 0.0) == MOST_KEPT / 2.0**64  # a double says it exactly
    assert keep_threshold(1e-5, 2) > 2**63
    assert response_epsilon(2**62, 2) == pytest.approx(math.log(3))
    with pytest.raises(UsageError, match="at least about 1e-18"):
        keep_threshold(1e-25, 3)


def test_keeping_all_and_one_category():
    codes = np.array([[0, 1], [2, 2]], dtype=np.int8)
    assert (randomized_response(rng(), codes, 3, 2**64) == codes).all()
    assert (randomized_response(rng(), codes, 3, 0) != codes).all()
    assert (randomized_response(rng(), np.zeros(5, dtype=int), 1, 7) == 0).all()
    assert randomized_response(rng(), [], 4, 7).shape == (0,)
    assert codes.tolist() == [[0, 1], [2, 2]]


@pytest.mark.parametrize(
    "use",
    [
        lambda: randomized_response(rng(), [0, 3], 3, 5),
        lambda: randomized_response(rng(), [-1], 3, 5),
        lambda: randomized_response(rng(), [0.5], 3, 5),
        lambda: randomized_response(rng(), [0], 0, 5),
        lambda: randomized_response(rng(), [0], 3, -1),
        lambda: randomized_response(rng(), [0], 3, 0.5),
        lambda: keep_threshold(0, 3),
        lambda: keep_threshold(math.nan, 3),
        lambda: keep_threshold("1", 3),
        lambda: keep_threshold(1, 2.5),
        lambda: response_epsilon(2**64 + 1, 3),
    ],
)
def test_wrong_arguments_are_refused(use):
    with pytest.raises(UsageError, match="parameter of"):
        use()
