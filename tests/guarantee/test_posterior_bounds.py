"""What an adversary can come to believe: the paper's numbers, and the bound against Bayes' rule itself."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from domains import steady
from sfumato.core.errors import UsageError
from sfumato.guarantee import amplification, epsilon_for_posterior, posterior_bound
from sfumato.guarantee.cost import (
    Central,
    chance_at_most,
    loss_for_gain,
    loss_of_rho,
    most_gained,
    pairs_told_apart,
    presence,
    rho_for,
    rho_of_loss,
)

probabilities = st.floats(1e-9, 1 - 1e-9)
epsilons = st.floats(0, 30)

PUBLISHED = [(0.1, 22026, 0.957), (0.2, 148, 0.129), (0.25, 54.6, 0.052), (0.3, 28.0, 0.0273)]


@pytest.mark.parametrize(("b", "gamma", "rho2"), PUBLISHED)
def test_the_papers_amplification_and_posterior(b, gamma, rho2):
    """Section 5: gamma = e^(1/b), and what a prior of .001 can become."""
    assert float(f"{amplification(1 / b):.3g}") == pytest.approx(gamma, rel=3e-3)
    assert posterior_bound(0.001, 1 / b) == pytest.approx(rho2, abs=0.6 * 10 ** -len(str(rho2)[2:]))


@given(probabilities, epsilons)
@steady()
def test_up_and_down_enclose_the_prior(prior, epsilon):
    up, down = posterior_bound(prior, epsilon), posterior_bound(prior, epsilon, downward=True)
    assert down <= prior * (1 + 1e-9)
    assert up >= prior * (1 - 1e-9)
    assert 0 <= down <= up <= 1


@given(probabilities, epsilons)
@steady()
def test_downward_is_upward_for_the_opposite_property(prior, epsilon):
    """Theorem 3: a property may become as improbable as its opposite may become probable."""
    opposite = 1 - posterior_bound(1 - prior, epsilon)
    assert posterior_bound(prior, epsilon, downward=True) == pytest.approx(opposite, rel=1e-6, abs=1e-12)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.001, 12))
@steady()
def test_the_inverse_gives_the_epsilon_back(prior, epsilon):
    assert epsilon_for_posterior(prior, posterior_bound(prior, epsilon)) == pytest.approx(epsilon, rel=1e-4, abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.floats(0.05, 6))
@steady()
def test_bayes_rule_never_leaves_the_bounds_and_reaches_them(seed, values, epsilon):
    """Any channel of two answers whose likelihoods differ by at most e^epsilon, any property, any prior."""
    rng = np.random.default_rng(seed)
    likelihood = math.exp(-epsilon) + (1 - math.exp(-epsilon)) * rng.random(values)
    prior = rng.dirichlet(np.ones(values))
    holds = rng.random(values) < 0.5
    holds[0], holds[-1] = True, False
    before = prior[holds].sum()
    after = (prior * likelihood)[holds].sum() / (prior * likelihood).sum()
    assert posterior_bound(before, epsilon, downward=True) * (1 - 1e-9) <= after
    assert after <= posterior_bound(before, epsilon) * (1 + 1e-9)
    worst = np.where(holds, 1.0, math.exp(-epsilon))
    reached = (prior * worst)[holds].sum() / (prior * worst).sum()
    assert reached == pytest.approx(posterior_bound(before, epsilon), rel=1e-9)


@given(probabilities, epsilons, epsilons)
@steady()
def test_a_larger_epsilon_never_protects_better(prior, first, second):
    low, high = sorted((first, second))
    assert posterior_bound(prior, low) <= posterior_bound(prior, high)
    assert posterior_bound(prior, low, downward=True) >= posterior_bound(prior, high, downward=True)


def test_extremes_do_not_overflow():
    assert posterior_bound(0.001, math.inf) == 1
    assert posterior_bound(0.001, math.inf, downward=True) == 0
    assert posterior_bound(0.001, 1e6) == 1
    assert posterior_bound(0.25, 0) == pytest.approx(0.25)
    assert amplification(1e6) == math.inf
    assert amplification(0) == 1


@pytest.mark.parametrize("prior", [0, 1, -0.1, 1.5, math.nan])
def test_a_prior_is_a_probability(prior):
    with pytest.raises(UsageError, match="prior must be a probability"):
        posterior_bound(prior, 1)
    with pytest.raises(UsageError, match="prior must be a probability"):
        epsilon_for_posterior(prior, 0.5)


@pytest.mark.parametrize("epsilon", [-1, -1e-12, math.nan])
def test_an_epsilon_that_is_none_bounds_nothing(epsilon):
    """Not a number once gave the bound 0: the safest of all, from nothing."""
    with pytest.raises(UsageError, match="epsilon"):
        posterior_bound(0.1, epsilon)


def test_no_release_lowers_a_belief_to_what_it_was_before():
    with pytest.raises(UsageError, match="must exceed the prior"):
        epsilon_for_posterior(0.2, 0.2)
    with pytest.raises(UsageError, match="posterior must be a probability"):
        epsilon_for_posterior(0.2, 1)


def test_no_belief_gains_more_than_the_arithmetic_says():
    """Over all priors, by brute force: the largest gain is reached, and nothing exceeds it."""
    for epsilon in (0.1, 0.81, 2.0, 6.0):
        gains = [posterior_bound(p, epsilon) - p for p in np.linspace(0.001, 0.999, 4_000)]
        assert max(gains) <= most_gained(epsilon)
        assert max(gains) == pytest.approx(most_gained(epsilon), abs=1e-5)
        assert loss_for_gain(most_gained(epsilon)) == pytest.approx(epsilon)


@pytest.mark.parametrize("rho", [0.005, 0.05, 0.5, 3.0])
def test_the_loss_under_noise_on_counts_passes_its_bound_as_rarely_as_stated(rho):
    """Two counts moved by 1 under discrete Gaussian noise, the loss added up exactly."""
    delta, variance = 1e-3, 1.0 / rho  # squared distance 2, so rho = 2 / (2 variance)
    steps = np.arange(-round(9 * variance**0.5) - 2, round(9 * variance**0.5) + 3)
    noise = np.exp(-(steps**2) / (2 * variance))
    noise /= noise.sum()
    loss = (1 - 2 * steps) / (2 * variance)  # of a count that the other table has one more of
    both, weights = np.add.outer(loss, loss).ravel(), np.multiply.outer(noise, noise).ravel()
    beyond = weights[both > loss_of_rho(rho, delta)].sum()
    assert beyond <= delta
    assert weights[both > 0.7 * loss_of_rho(rho, delta)].sum() > delta  # a bound 30% lower is broken
    told = 0.5 + 0.25 * np.abs(weights - weights * np.exp(-both)).sum()
    assert told <= pairs_told_apart(rho=rho)
    assert told - 0.5 > 0.55 * (pairs_told_apart(rho=rho) - 0.5)


def test_pairs_under_a_pure_epsilon_are_told_apart_as_often_as_randomized_response_allows():
    for epsilon in (0.2, 1.0, 4.0):
        keep = np.exp(epsilon) / (1 + np.exp(epsilon))
        assert keep <= pairs_told_apart(epsilon=epsilon) + 1e-12
        assert pairs_told_apart(epsilon=epsilon) <= keep + 1e-12


@pytest.mark.parametrize("sure", [0.2, 0.3, 0.5, 0.9])
def test_what_was_asked_for_is_what_is_said(sure):
    """By way of a loss, and of the rho that has it, 2 in 10 stays 2 in 10; a little more is rounded up."""
    loss = epsilon_for_posterior(0.1, sure)
    again = loss_of_rho(rho_of_loss(loss, 1e-6), 1e-6)
    assert chance_at_most(0.1, loss) == chance_at_most(0.1, again) == f"at most {10 * sure:g} in 10"
    assert chance_at_most(0.1, loss + 1e-6) == f"at most {10 * sure + 0.1:g} in 10"


def test_a_test_for_presence_in_people():
    assert "wrong 1 time in 100 is right at most 3 times in 100" in presence(
        Central(rho=rho_for(1.0, 1e-6), delta=1e-6)
    )
    assert "is right at most 2 times in 100" in presence(Central(pure=math.log(2)))
    assert "may be right every time" in presence(Central(pure=5.0))
