"""Choices by exact inverse transform: the law is the stated one, by a second way; undecided words are refined."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sfumato.core.errors import UsageError
from sfumato.noise.grid import (
    MARGIN,
    ExactChoice,
    _running_sums,
    discrete_gaussian,
    discrete_laplace_of,
    exponential_choice,
)

N = 200_000


def fits(drawn, pmf):
    """Chi-square against a law over integers; cells with too few expected are pooled at both ends."""
    values = np.arange(drawn.min(), drawn.max() + 1)
    expected = len(drawn) * pmf(values)
    kept = expected >= 10
    counts = np.array([(drawn == value).sum() for value in values[kept]])
    rest = len(drawn) - counts.sum()
    return stats.chisquare([*counts, rest], [*expected[kept], len(drawn) - expected[kept].sum()]).pvalue


def gaussian(variance):
    every = np.arange(-4000, 4001)
    total = np.exp(-(every**2) / (2 * variance)).sum()
    return lambda n: np.exp(-(n**2) / (2 * variance)) / total


@pytest.mark.parametrize("variance", [0.25, 2.0, 30.7, 900.0])
def test_the_discrete_gaussian_has_its_law_and_no_wider_one(variance):
    drawn = discrete_gaussian(np.random.default_rng(1), variance, N)
    assert fits(drawn, gaussian(variance)) > 1e-4
    assert fits(drawn, gaussian(1.3 * variance)) < 1e-9


@pytest.mark.parametrize("scale", [0.4, 3.0, 21.5])
def test_the_discrete_laplace_law_of_any_scale(scale):
    drawn = discrete_laplace_of(np.random.default_rng(2), scale, N)
    assert fits(drawn, lambda n: np.tanh(0.5 / scale) * np.exp(-np.abs(n) / scale)) > 1e-4
    assert fits(drawn, lambda n: np.tanh(0.5 / (1.3 * scale)) * np.exp(-np.abs(n) / (1.3 * scale))) < 1e-9


def test_the_exponential_mechanism_prefers_as_much_as_it_says():
    scores, rng = np.array([3, 1, 0, -4]), np.random.default_rng(3)
    choice = ExactChoice(-scores, Fraction(0.7))
    weights = np.exp(0.7 * scores)
    np.testing.assert_allclose(choice.probabilities, weights / weights.sum(), rtol=1e-12)
    drawn = np.bincount(choice.draw(rng, N), minlength=4)
    assert stats.chisquare(drawn, N * weights / weights.sum()).pvalue > 1e-4
    assert exponential_choice(rng, [0, 10_000], 1.0) == 1  # a difference that underflows doubles
    assert exponential_choice(rng, [5], 0.0) == 0


class Words:
    """A generator that gives out chosen words."""

    def __init__(self, *words):
        self.words = list(words)

    def integers(self, low, high, size, dtype):  # noqa: ARG002
        return np.array([self.words.pop(0) for _ in range(size)], dtype=dtype)


def test_a_word_on_the_edge_is_decided_by_further_bits():
    """Doubles cannot tell these from the middle, or from a third; 256 bits can."""
    half = ExactChoice([0, 0], Fraction(1))
    assert half.draw(Words(2**63, 1, 0, 0), 1)[0] == 1
    assert half.draw(Words(2**63 - 1, 2**64 - 1, 2**64 - 1, 5), 1)[0] == 0
    third = ExactChoice([0, 0, 0], Fraction(1))  # 1/3 has no finite binary expansion: 0101...
    first = int("01" * 32, 2)
    assert third.draw(Words(first, 0, 0, 0), 1)[0] == 0
    assert third.draw(Words(first, 2**64 - 1, 0, 0), 1)[0] == 1


def test_scales_that_cannot_be():
    for wrong in (0.0, -1.0, float("nan"), 1e13):
        with pytest.raises((UsageError, ValueError)):
            discrete_gaussian(np.random.default_rng(0), wrong, 3)


def test_sums_of_many_weights_err_far_less_than_the_margin():
    """A plain cumulative sum of so many numbers may err by more than what counts as undecided."""
    weights = np.full(300_001, 0.1)
    exact = np.cumsum(weights.astype(np.longdouble))
    assert np.abs(np.cumsum(weights) / exact - 1).max() > MARGIN
    assert np.abs(_running_sums(weights) / exact - 1).max() < MARGIN / 8
    assert (np.diff(_running_sums(weights)) >= 0).all()
    np.testing.assert_array_equal(_running_sums(weights[:200]), np.cumsum(weights[:200]))
