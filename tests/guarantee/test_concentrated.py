"""What measurements cost: the conversion by a second way, groups, and sums of both kinds."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from sfumato.channels.recipe import Measurement
from sfumato.guarantee.cost import NOTHING_PROVED, Central, Values, epsilon_of, rho_for


@pytest.mark.parametrize(("epsilon", "rho"), [(1.0, 0.0244), (8.0, 1.052)])
def test_figures_of_the_literature(epsilon, rho):
    assert rho_for(epsilon, 1e-6) == pytest.approx(rho, rel=2e-3)
    assert epsilon_of(rho_for(epsilon, 1e-6), 1e-6) <= epsilon


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_the_conversion_bounds_the_gaussian_mechanism_and_is_not_far_above_it(rho, delta):
    """Exact delta of normal noise [Balle & Wang 2018], of which the conversion is an upper bound."""
    mu = math.sqrt(2 * rho)

    def exact(epsilon):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)

    tight = optimize.brentq(lambda epsilon: exact(epsilon) - delta, 0, 200)
    assert tight <= epsilon_of(rho, delta) < 1.25 * tight + 0.01


def test_groups_and_values_cost_what_rho_says():
    one = Central(rho=rho_for(1.0, 1e-6), delta=1e-6)
    assert one.group(2).epsilon == one.value.epsilon == pytest.approx(2.11, abs=0.01)
    assert one.group(10).epsilon == pytest.approx(13.2, abs=0.05)
    assert Central(pure=1.0).group(3).epsilon == 3.0


def test_sums_take_the_better_bound():
    pure, noisy = Central(pure=1.0), Central(rho=rho_for(1.0, 1e-6), delta=1e-6)
    assert (pure + noisy).epsilon == pytest.approx(2.0, rel=1e-6)
    assert (Central(pure=0.01) + noisy).epsilon < 1.01  # as rho it costs less than on its own
    both = noisy + noisy
    assert both.epsilon == pytest.approx(epsilon_of(2 * noisy.rho, 1e-6))
    assert Central.from_dict(both.to_dict()) == both


def test_a_sum_never_costs_less_than_its_parts_and_a_large_delta_buys_nothing():
    """At the larger delta two releases would come to less than the second alone, and a budget could be stretched."""
    loose, strict = Central(rho=rho_for(0.5, 1e-3), delta=1e-3), Central(rho=rho_for(1.0, 1e-6), delta=1e-6)
    for both in (loose + strict, strict + loose):
        assert both.delta == 1e-6
        assert both.epsilon == pytest.approx(epsilon_of(loose.rho + strict.rho, 1e-6), rel=1e-9)
        assert both.epsilon > strict.epsilon
    assert (strict + Central(pure=0.5)).delta == 1e-6
    edited = Central(rho=loose.rho + strict.rho, delta=1e-3)
    assert edited.epsilon < strict.epsilon < edited.at_least(strict).epsilon
    assert Central(rho=strict.rho / 2, delta=1e-6).at_least(strict) == strict


def test_values_of_both_kinds_against_brute_force():
    """Somebody's cell is "a" or "b": both counts of a table change by one, and a randomized response of it is seen too.

    Ratios and deltas of all outcomes of both mechanisms together, exactly; the figure for presence would be too small.
    """
    local, keep = 0.7, math.exp(0.7) / (1 + math.exp(0.7))
    responses = np.array([[keep, 1 - keep], [1 - keep, keep]])

    def divergence(law, epsilon):
        """The least delta for this epsilon; `law` of a count that is 0 and of one that is 1, at every outcome."""
        zero, one = law
        worst = 0.0
        for x, y in ((0, 1), (1, 0)):
            p = responses[x][:, None, None] * np.multiply.outer(*((one, zero) if x == 0 else (zero, one)))
            q = responses[y][:, None, None] * np.multiply.outer(*((one, zero) if y == 0 else (zero, one)))
            worst = max(worst, np.maximum(p - math.exp(epsilon) * q, 0).sum())
        return worst

    grid = np.arange(-60, 62)

    def laws(weights):
        return [weights(grid - mean) / weights(np.arange(-2000, 2001)).sum() for mean in (0, 1)]

    pure = laws(lambda x: np.exp(-0.5 * np.abs(x)))
    values = Values(local, Central(pure=0.5))
    assert values.epsilon == pytest.approx(0.7 + 2 * 0.5)
    assert divergence(pure, values.epsilon) < 1e-12
    assert divergence(pure, 0.7 * values.epsilon) > 1e-3
    noisy = Central(rho=1 / (2 * 30.0), delta=1e-6)
    gaussian = laws(lambda x: np.exp(-(x**2) / (2 * 30.0)))
    values = Values(local, noisy)
    assert values.delta == 1e-6
    assert divergence(gaussian, values.epsilon) <= 1e-6
    assert divergence(gaussian, 0.7 * values.epsilon) > 1e-6
    assert divergence(gaussian, local + noisy.epsilon) > 1e-6, "presence is not enough"


def test_values_add_up_in_any_order():
    """Rho adds up first and is translated once; a pure cost counts twice; nothing is lost that one part has."""
    costs = [Central(rho=0.02, delta=1e-6), Central(pure=0.3), Central(rho=0.05, delta=1e-5)]
    whole = Values(1.5, costs[0] + costs[1] + costs[2])
    assert whole.epsilon == pytest.approx(1.5 + min(0.6 + epsilon_of(0.28, 1e-6), epsilon_of(0.28 + 0.18, 1e-6)))
    parts = costs[2].value + costs[0].value + costs[1].value
    assert whole.central.value.rho == pytest.approx(parts.rho)
    assert whole.central.value.pure == pytest.approx(parts.pure)
    assert whole.epsilon > max(Values(1.5, one).epsilon for one in costs)
    assert not Values(0.0, costs[0] + NOTHING_PROVED).bounded
    assert Values(2.0).words() == "epsilon 2"
    assert Values(math.inf).words() == "no bound"
    assert Central.from_dict((costs[0] + NOTHING_PROVED).to_dict()).epsilon == math.inf


def test_measurements_add_up():
    measured = [Measurement("a", "gaussian", 4, 50.0), Measurement("b", "choice", 3, 0.2)]
    assert Central.of(measured, 1e-6).rho == pytest.approx(4 / 100 + 3 * 0.2**2 / 8)
    pure = [Measurement("a", "laplace", 4, 50.0), Measurement("b", "choice", 3, 0.2)]
    assert Central.of(pure, 0.0).epsilon == pytest.approx(4 / 50 + 3 * 0.2)
    assert Central.of(measured, 0.0).epsilon == math.inf


def test_a_choice_costs_no_more_than_its_epsilon_squared_over_eight():
    """Renyi divergence of two exponential mechanisms whose scores differ by 1, at many orders, by brute force."""
    rng, epsilon = np.random.default_rng(0), 0.8
    for _ in range(50):
        scores = rng.integers(-5, 6, 7)
        others = scores + rng.integers(-1, 2, 7)
        p, q = (np.exp(epsilon / 2 * s) / np.exp(epsilon / 2 * s).sum() for s in (scores, others))
        for alpha in (1.001, 1.5, 2.0, 8.0, 64.0):
            divergence = np.log((p**alpha * q ** (1 - alpha)).sum()) / (alpha - 1)
            assert divergence <= alpha * epsilon**2 / 8 + 1e-12
