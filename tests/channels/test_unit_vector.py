"""Whole vectors: the integer law by enumeration, caps' masses within their bounds, moments, and the distinguisher."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from distinguisher import assert_honest, empirical_epsilon
from sfumato.channels import FLOAT_NOISE, UnitVector
from sfumato.channels.base import EXACT_CAP
from sfumato.core.errors import UsageError
from sfumato.noise import Streams
from sfumato.noise.grid import WORD
from sfumato.noise.response import (
    best_tail,
    cap_epsilon,
    cap_masses,
    directions,
    discrete_normals,
    draw_caps,
    geometric,
    mean_length,
)

both = pytest.mark.parametrize("exact", [True, False])


def unit(dimension, seed=0):
    v = np.random.default_rng(seed).normal(size=dimension)
    return v / np.linalg.norm(v)


def law(bits, reach):
    """The discrete normal law on integers, in doubles."""
    n = np.arange(-reach, reach + 1)
    p = np.exp(-0.5 * (n / 2.0**bits) ** 2)
    return n, p / p.sum()


def test_geometric_and_normal_integers_have_their_laws():
    rng = np.random.default_rng(0)
    drawn = geometric(rng, 2, 60_000)
    wanted = np.exp(-np.arange(12) / 4) - np.exp(-np.arange(1, 13) / 4)
    seen = np.bincount(np.minimum(drawn, 12), minlength=13)
    assert stats.chisquare(seen, 60_000 * np.append(wanted, np.exp(-3))).pvalue > 1e-6
    n, p = law(1, 8)
    seen = np.bincount(np.clip(discrete_normals(rng, 1, 60_000), -8, 8) + 8, minlength=17)
    kept = p * 60_000 > 5
    assert seen[~kept].sum() < 40
    assert stats.chisquare(seen[kept], p[kept] / p[kept].sum() * seen[kept].sum()).pvalue > 1e-6
    wrong = np.exp(-0.5 * (n / 2.6) ** 2)[kept]
    assert stats.chisquare(seen[kept], wrong / wrong.sum() * seen[kept].sum()).pvalue < 1e-20


@pytest.mark.parametrize("tail", [-0.3, 0.4, 1.6])
def test_a_coarse_grid_by_enumeration(tail):
    """Two coordinates, steps of 1/4: drawn as often as normal weights times the two levels say, rare caps too."""
    bits, near, v = 2, 0.7, np.array([[0.6, -0.8]])
    s, tau = directions(v, tail, bits)
    n, p = law(bits, 24)
    weight = np.outer(p, p)
    inside = n[:, None] * s[0, 0] + n[None, :] * s[0, 1] >= tau[0]
    mass = weight[inside].sum()
    wanted = weight * np.where(inside, near / mass, (1 - near) / (1 - mass))
    rows = 120_000
    drawn = draw_caps(np.random.default_rng(1), np.repeat(v, rows, axis=0), int(near * WORD), tail, bits) + 24
    seen = np.bincount(drawn[:, 0] * 49 + drawn[:, 1], minlength=49 * 49)
    expected = wanted.reshape(-1) * rows
    kept = expected > 8
    seen, expected = (np.append(part[kept], part[~kept].sum()) for part in (seen, expected))
    assert stats.chisquare(seen, expected * rows / expected.sum()).pvalue > 1e-6
    least, most = cap_masses(tail, 2, bits)
    assert least <= mass <= most


def test_every_caps_mass_lies_within_the_bounds():
    bits, (n, p) = 3, law(3, 60)
    weight, rng = np.outer(p, p), np.random.default_rng(0)
    for tail in (-0.5, 0.5, 1.5):
        least, most = cap_masses(tail, 2, bits)
        found = []
        for angle in [0.0, math.pi / 4, *rng.random(20) * 2 * math.pi]:
            s, tau = directions(np.array([[math.cos(angle), math.sin(angle)]]), tail, bits)
            found.append(weight[n[:, None] * s[0, 0] + n[None, :] * s[0, 1] >= tau[0]].sum())
        assert least <= min(found)
        assert max(found) <= most
    fine = cap_masses(1.5, 41, 20)
    assert math.log(fine[1] / fine[0]) < 3e-5


def test_the_grid_moves_a_caps_mass_and_epsilon_counts_it():
    """Along an axis a cap is P(g >= m), which is a sum. Where the threshold lies on the grid, half a step more is in
    it than in the cap of a normal vector; where it lies just beyond, half a step less: both directions exist."""
    bits, (n, p) = 8, law(8, 12 << 8)
    for tail in (0.5, 1.5, 2.5):
        masses = []
        for off in (-1e-9, 1e-9):  # of a threshold at a point of the grid
            s, tau = directions(np.array([[1.0]]), tail + off, bits)
            masses.append(p[n * s[0, 0] >= tau[0]].sum())
        least, most = cap_masses(tail, 1, bits)
        assert least <= masses[1] < masses[0] <= most
        assert masses[1] < float(ndtr(-tail)) / 1.0005  # no bound without the grid's margin holds
        assert masses[0] > float(ndtr(-tail)) * 1.0005
        assert most / least < 1.1  # and the margin is a few steps, not more
        near = 0.8
        ratio = math.log(near / masses[1] / ((1 - near) / (1 - masses[0])))
        assert cap_epsilon(near, tail, 1, bits) >= ratio
        assert cap_epsilon(near, tail, 1, bits) == pytest.approx(ratio, abs=0.05)


@both
@pytest.mark.parametrize(("epsilon", "dimension"), [(0.5, 5), (4.0, 9), (12.0, 21)])
class TestLaw:
    def test_epsilon(self, epsilon, dimension, exact):
        channel = UnitVector.of_epsilon(epsilon, dimension, exact=exact)
        assert channel.path == (EXACT_CAP if exact else FLOAT_NOISE)
        assert channel.epsilon <= epsilon
        assert channel.epsilon == pytest.approx(epsilon, rel=1e-6)
        mass = float(ndtr(-channel.tail))
        levels = channel.near / mass, (1 - channel.near) / (1 - mass)
        assert math.log(levels[0] / levels[1]) == pytest.approx(epsilon, rel=1e-3)

    def test_mean_covariance_and_cap(self, epsilon, dimension, exact):
        rows, v = 20_000, unit(dimension)
        channel = UnitVector.of_epsilon(epsilon, dimension, 3.0, exact=exact)
        z = channel.draw(np.tile(v, (rows, 1)), Streams.seeded(1).generator(0))
        line = channel.line(v[None])
        off = (z.mean(axis=0) - 3.0 * v) / np.sqrt(np.diag(line.covariance) / rows)
        assert np.abs(off).max() < 5
        assert np.trace(np.cov(z.T)) == pytest.approx(np.trace(line.covariance), rel=0.03)
        assert np.var(z @ v) == pytest.approx(v @ line.covariance @ v, rel=0.06)
        hit = int(np.sum(channel.log_likelihood(z, v[None])[:, 0] > channel.log_likelihood(z, -v[None])[:, 0]))
        assert 0 < hit <= rows
        near = int(np.sum(z @ v >= channel.tail * channel.scale))
        assert stats.binomtest(near, rows, channel.near).pvalue > 1e-6
        low, high, bounded = channel.reach(-1.0, 1.0, 1e-9)
        assert bounded
        assert low < z.min() < z.max() < high

    def test_the_likelihood_has_mass_one_by_importance_sampling(self, epsilon, dimension, exact):
        channel, rng = UnitVector.of_epsilon(epsilon, dimension, exact=exact), np.random.default_rng(3)
        x = rng.standard_normal((200_000, dimension)) * channel.scale
        base = stats.norm.logpdf(x / channel.scale).sum(axis=1) - dimension * math.log(channel.scale)
        ratio = np.exp(channel.log_likelihood(x, unit(dimension)[None])[:, 0] - base)
        assert ratio.mean() == pytest.approx(1, abs=6 * ratio.std() / math.sqrt(len(x)) + 1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_best_distinguisher_reaches_the_claim_and_no_more(epsilon):
    channel, v = UnitVector.of_epsilon(epsilon, 3, exact=True), unit(3)
    ratios, streams = [], Streams.seeded(4)
    for number, truth in enumerate((v, -v)):
        z = channel.draw(np.tile(truth, (100_000, 1)), streams.generator(number))
        log = channel.log_likelihood(z, np.array([v, -v]))
        ratios.append(log[:, 0] - log[:, 1])
    assert_honest(empirical_epsilon(*ratios, channel.epsilon), channel.epsilon)
    loose = UnitVector(channel.dimension, 1 - (1 - channel.near) / 1.4, channel.tail, 1.0, channel.bits)
    z = [loose.draw(np.tile(t, (100_000, 1)), streams.generator(9 + i)) for i, t in enumerate((v, -v))]
    log = [loose.log_likelihood(one, np.array([v, -v])) for one in z]
    with pytest.raises(AssertionError, match="was proved, and only"):
        assert_honest(empirical_epsilon(*(one[:, 0] - one[:, 1] for one in log), channel.epsilon), channel.epsilon)


def test_the_threshold_makes_the_least_variance():
    for epsilon, dimension in ((1.0, 5), (8.0, 21)):
        best = best_tail(epsilon, dimension)
        spread = {}
        for tail in (best, best - 0.2, best + 0.2):
            mass = float(ndtr(-tail))
            near = 1 / (1 + math.exp(-epsilon) * (1 - mass) / mass)
            spread[tail] = (dimension + tail * mean_length(near, tail)) / mean_length(near, tail) ** 2
        assert min(spread, key=spread.get) == best


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 100.0, math.nan])
def test_absurd_epsilons(epsilon):
    with pytest.raises(UsageError, match="epsilon of a vector"):
        UnitVector.of_epsilon(epsilon, 4)
