"""Privacy and information loss, each against a second way: closed forms, numerical integration, brute force."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from sfumato.attacks.metrics.information import (
    calibrate,
    collapsed_share,
    conditional_entropy_privacy,
    entropy_privacy,
    half_distance,
    information_loss,
    interval_privacy,
    mutual_information,
    posterior_interval,
    privacy_loss,
)
from sfumato.core.errors import UsageError
from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.reconstruction.density import Density, Shares
from sfumato.reconstruction.evidence import Cells

ADDITIVE, MULTIPLICATIVE = make_operator("additive"), make_operator("multiplicative")
LINE = Density("x", Cells.even(0, 1, 75), np.full(75, 1 / 75))


def uniform(low, high, operator=ADDITIVE):
    return OperatorNoise(operator, make_law("uniform", low=low, high=high))


def normal_density(cells=300):
    edges = np.linspace(-6, 6, cells + 1)
    mass = np.diff(stats.norm.cdf(edges))
    return Density("x", Cells(edges), mass / mass.sum())


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_information_of_normal_noise_on_normal_values(scale):
    """I = log2(1 + 1 / s^2) / 2."""
    found = mutual_information(OperatorNoise(ADDITIVE, make_law("normal", scale=scale)), normal_density())
    assert found == pytest.approx(0.5 * np.log2(1 + 1 / scale**2), rel=2e-3)


@pytest.mark.parametrize("width", [0.5, 1.0, 4.0])
def test_information_of_uniform_noise_against_integration(width):
    """X on [0, 1]: I = h(Z) - log2(width), Z a trapezium."""
    noise = uniform(0, width)

    def density(z):
        return max(0.0, min(z, 1) - max(z - width, 0)) / width

    ends = sorted({0.0, 1.0, width, 1 + width})
    entropy = sum(
        integrate.quad(lambda z: -density(z) * np.log2(density(z)) if density(z) > 0 else 0.0, a, b)[0]
        for a, b in pairwise(ends)
    )
    assert mutual_information(noise, LINE) == pytest.approx(entropy - np.log2(width), abs=2e-3)


def test_information_of_multiplicative_noise_against_integration():
    """X uniform on [1, 2], e on [1, 3]: h(Z|X) = E log2(2 X); f_Z by integrating f_X(x) f_E(z / x) / x."""
    x = Density("x", Cells.even(1, 2, 75), np.full(75, 1 / 75))

    def density(z):
        low, high = max(1, z / 3), min(2, z)
        return np.log(high / low) / 2 if high > low else 0.0

    entropy = sum(
        integrate.quad(lambda z: -density(z) * np.log2(density(z)) if density(z) > 0 else 0.0, a, b)[0]
        for a, b in ((1, 2), (2, 3), (3, 6))
    )
    given = integrate.quad(lambda x: np.log2(2 * x), 1, 2)[0]
    found = mutual_information(uniform(1, 3, MULTIPLICATIVE), x)
    assert found == pytest.approx(entropy - given, abs=2e-3)
    assert privacy_loss(uniform(1, 3, MULTIPLICATIVE), x) == pytest.approx(1 - 2 ** -(entropy - given), abs=2e-3)


@pytest.mark.parametrize("df", [1.0, 1.5, 2.0, 3.0])
def test_information_of_heavy_tails_against_integration(df):
    """X uniform on [0, 1]: I = h(Z) - h(E). Cells as wide as the far tails asked for gave .24 in place of .38 bits."""
    law = stats.t(df, scale=0.2)

    def integrand(z):
        f = law.sf(z - 1) - law.sf(z) if z < 1e3 else law.pdf(z - 0.5)
        return -f * np.log2(f)

    def far(log):
        return np.exp(log) * integrand(np.exp(log))

    half = sum(integrate.quad(integrand, *ends, limit=200)[0] for ends in ((0.5, 1), (1, 20)))
    half += sum(integrate.quad(far, *np.log(ends), limit=200)[0] for ends in ((20, 1e3), (1e3, 1e9)))
    exact = 2 * half - law.entropy() / np.log(2)
    noise = OperatorNoise(ADDITIVE, make_law("student-t", scale=0.2, df=df))
    assert mutual_information(noise, LINE) == pytest.approx(exact, rel=0.01)


def test_more_noise_loses_less_privacy_and_none_loses_all():
    losses = [privacy_loss(uniform(-w, w), LINE) for w in (1e-4, 0.1, 1.0, 100.0)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 0.99
    assert losses[-1] < 0.01


def test_entropy_is_a_length():
    """Agrawal & Aggarwal: a uniform variable on [0, a] has privacy a."""
    assert entropy_privacy(LINE) == pytest.approx(1)
    assert entropy_privacy(normal_density()) == pytest.approx(np.sqrt(2 * np.pi * np.e), rel=1e-3)
    noise = OperatorNoise(ADDITIVE, make_law("normal", scale=1.0))
    assert conditional_entropy_privacy(noise, normal_density()) == pytest.approx(np.sqrt(np.pi * np.e), rel=5e-3)
    share = conditional_entropy_privacy(noise, LINE) / entropy_privacy(LINE)
    assert share == pytest.approx(1 - privacy_loss(noise, LINE))


def test_interval_privacy_is_that_of_the_table_of_agrawal_and_srikant():
    """Uniform noise on [-a, a]: 0.5 x 2a, 0.95 x 2a, 0.999 x 2a; normal noise: 1.34 s, 3.92 s, 6.58 s."""
    a = make_law("uniform", low=-3, high=3)
    assert [interval_privacy(a, c) for c in (0.5, 0.95, 0.999)] == pytest.approx([3.0, 5.7, 5.994])
    s = make_law("normal", scale=2.0)
    assert [interval_privacy(s, c, span=2) for c in (0.5, 0.95, 0.999)] == pytest.approx([1.349, 3.92, 6.581], abs=1e-3)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_posterior_interval_of_normal_values(confidence):
    """Given z, x is normal with variance s^2 / (1 + s^2) whatever z."""
    noise = OperatorNoise(ADDITIVE, make_law("normal", scale=0.5))
    wanted = 2 * stats.norm.ppf(0.5 + confidence / 2) * np.sqrt(0.25 / 1.25)
    assert posterior_interval(noise, normal_density(), confidence) == pytest.approx(wanted, rel=0.01)


def test_posterior_interval_against_brute_force():
    rng = np.random.default_rng(0)
    x = rng.beta(2, 5, 40_000) + 1
    noise = uniform(1, 2, MULTIPLICATIVE)
    z = noise.sample(x, rng)
    lengths = []
    for value in z[:150]:  # among people with nearly this z, the shortest intervals that hold 95% of them
        near = np.sort(x[np.abs(z - value) < 0.02])
        take = int(np.ceil(0.95 * len(near)))
        lengths.append(np.min(near[take - 1 :] - near[: len(near) - take + 1]))
    assert posterior_interval(noise, x, 0.95) == pytest.approx(np.mean(lengths), rel=0.06)


def test_share_of_collapsed_intervals_against_brute_force():
    """X on [0, 1], noise on [0, 2]: x lies in [z - 2, z]; less than 5% is left where z < 0.05 or z > 2.95."""
    noise = uniform(0, 2)
    rng = np.random.default_rng(1)
    z = noise.sample(rng.random(400_000), rng)
    left = np.minimum(z, 1) - np.maximum(z - 2, 0)
    assert collapsed_share(noise, LINE) == pytest.approx(np.mean(left < 0.05), abs=6e-4)
    assert collapsed_share(OperatorNoise(ADDITIVE, make_law("normal", scale=0.5)), LINE) == 0


def test_values_in_two_far_lumps_collapse_though_noise_is_wide():
    """Agrawal & Aggarwal's warning: X on [0, 1] and [4, 5], noise on [-1, 1] tells which lump it was."""
    rng = np.random.default_rng(0)
    x = rng.random(20_000) + 4 * (rng.random(20_000) < 0.5)
    assert collapsed_share(uniform(-1, 1), x, tolerance=0.25) > 0.99  # a lump is a fifth of the range
    assert collapsed_share(uniform(-1, 1), x, tolerance=0.1) == pytest.approx(0.125, abs=0.01)  # z within .5 of an end
    assert interval_privacy(make_law("uniform", low=-1, high=1), 0.95) == pytest.approx(1.9)
    assert posterior_interval(uniform(-1, 1), x, 0.95) < 1


def test_information_loss_is_half_the_distance():
    assert half_distance([0.5, 0.5, 0], [0, 0.5, 0.5]) == pytest.approx(0.5)
    density = Density("x", Cells.even(0, 2, 2), np.array([0.25, 0.75]))
    assert information_loss([0.5, 0.5, 1.5, 1.5], density) == pytest.approx(0.25)
    assert information_loss([0.5, 1.5, 1.5, 1.5], density) == pytest.approx(0)
    assert information_loss([0.5, 1.5, 7.0, -7.0], density) == pytest.approx(0.5)  # half of it is nowhere near
    assert information_loss([7.0, 8.0], density) == 1
    one = np.ones(2)
    shares = Shares("c", ("a", "b"), np.array([0.5, 0.5]), 0 * one, one, 0.9, 10)
    assert information_loss(["a", "a", "a", "b"], shares) == pytest.approx(0.25)


@pytest.mark.parametrize("start", [uniform(-1, 1), uniform(1, 3, MULTIPLICATIVE)], ids=["additive", "multiplicative"])
def test_calibration_finds_the_noise_of_a_wanted_loss_and_back(start):
    x = np.random.default_rng(0).gamma(9, 1, 3000) + 1
    found = calibrate(start, x, 0.33)
    assert privacy_loss(found, x) == pytest.approx(0.33, abs=1e-4)
    assert privacy_loss(found.stretched(1.3), x) < 0.31 < 0.36 < privacy_loss(found.stretched(1 / 1.3), x)


def test_calibration_by_a_family_of_ones_own_and_out_of_reach():
    x = np.random.default_rng(0).gamma(9, 1, 3000) + 1
    found = calibrate(uniform(1, 2), x, 0.3, family=lambda t: uniform(1, 1 + t, MULTIPLICATIVE), between=(0.01, 100.0))
    assert found.law.support[0] == 1
    assert privacy_loss(found, x) == pytest.approx(0.3, abs=1e-4)
    with pytest.raises(UsageError, match="No strength"):
        calibrate(uniform(-1, 1), x, 0.33, between=(0.001, 0.01))
    with pytest.raises(UsageError, match="between 0 and 1"):
        calibrate(uniform(-1, 1), x, 1.2)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="nothing to hide"):
        privacy_loss(uniform(-1, 1), np.ones(20))
    with pytest.raises(UsageError, match="confidence"):
        interval_privacy(make_law("normal", scale=1.0), 95)
