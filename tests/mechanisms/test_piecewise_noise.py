"""piecewise-noise: the paper's variance, and means that are right on average."""

import math

import numpy as np
import pytest

from domains import domain
from sfumato.channels import Hybrid, Piecewise
from sfumato.mechanisms import PiecewiseNoise
from sfumato.noise import Streams
from sfumato.table import Encoding


def published_variance(epsilon, t):
    """Lemma 1 of the paper, for t in [-1, 1]."""
    root = math.exp(epsilon / 2)
    return t**2 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_variance_is_the_papers(epsilon, exact):
    channel = Piecewise.of_epsilon(epsilon, exact=exact)
    for x in (0.0, 0.2, 0.5, 1.0):
        wanted = published_variance(epsilon, 2 * x - 1) / 4
        assert float(channel.variance(np.array(x))) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("epsilon", [0.3, 0.61, 1.0, 3.0])
def test_the_hybrid_mixes_as_published_and_never_varies_more_at_worst(epsilon, exact):
    """Two ends at (e^eps + 1) / (e^eps - 1) in units of t [Duchi et al. 2018]; e^(-eps/2) of them, or all."""
    channel, e = Hybrid.of_epsilon(epsilon, exact=exact), math.exp(epsilon)
    assert 2 * channel.ends[1] - 1 == pytest.approx((e + 1) / (e - 1), rel=1e-5)
    assert channel.often == pytest.approx(1 - math.exp(-epsilon / 2) if epsilon > 0.61 else 0)
    assert channel.epsilon <= epsilon * (1 + 1e-12)
    assert channel.epsilon == pytest.approx(epsilon, rel=1e-5)
    x = np.linspace(0, 1, 101)
    assert channel.variance(x).max() <= Piecewise.of_epsilon(epsilon).variance(x).max() * (1 + 1e-9)
    noise, edges = channel.raw_noise(8.0, 3.0), np.linspace(*channel.reach(0, 1, 0)[:2], 4001)
    for at in (0.0, 0.3, 1.0):
        mass = np.diff(noise.cdf(3 + 8 * edges, 3 + 8 * at), prepend=0.0)[1:]
        middles = (edges[1:] + edges[:-1]) / 2
        assert mass.sum() == pytest.approx(1, abs=1e-9)
        assert mass @ middles == pytest.approx(at, abs=2e-3)
        assert mass @ (middles - at) ** 2 == pytest.approx(float(channel.variance(np.array(at))), rel=5e-3)


def test_means_are_right_on_average_and_means_a_third_off_are_not():
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 6)) ** np.array([1, 2, 3, 0.5, 4, 1])
    mechanism = PiecewiseNoise(epsilon_record=5.0).fit(X, encoding=Encoding.unit(6, public=True))
    assert mechanism.columns_ == 2
    Z = mechanism.perturb(X, None, Streams.seeded(3).generator(0)).X
    spread = np.nanstd(Z, axis=0) / np.sqrt((~np.isnan(Z)).sum(axis=0))
    off = (np.nanmean(Z, axis=0) - X.mean(axis=0)) / spread
    assert np.abs(off).max() < 5
    wrong = (np.nanmean(0.5 + (Z - 0.5) / 1.3, axis=0) - X.mean(axis=0)) / spread
    assert np.abs(wrong).max() > 8


def test_missing_cells_are_the_middle_on_average():
    mechanism = PiecewiseNoise(epsilon_record=2.0).fit(np.array([[0.5, 1.0]]), encoding=domain("m"))
    Z = mechanism.perturb(np.tile([0.5, 1.0], (50_000, 1)), None, Streams.seeded(1).generator(0)).X
    assert Z[:, 0].mean() == pytest.approx(0.5, abs=5 * Z[:, 0].std() / np.sqrt(50_000))
    assert not Z[:, 1].any()
